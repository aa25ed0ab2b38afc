//! Addresses of this node and of others.

use crate::failure::Failure;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};

/// Most addresses of one node that others are told.
const ADDRESSES_MAX: usize = 8;

/// The addresses of this node that others may reach, its loopback's last.
pub(crate) fn own() -> Vec<IpAddr> {
    let table = std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let mut found = local(&table);
    found.truncate(ADDRESSES_MAX - 1);
    found.push(Ipv4Addr::LOCALHOST.into());
    found
}

/// The addresses that a routing trie calls local. Source: `net/ipv4/fib_trie.c`: a line with the address, then one with its kind.
fn local(table: &str) -> Vec<IpAddr> {
    let lines = table.lines().map(str::trim).zip(table.lines().skip(1).map(str::trim));
    let addresses = lines.filter(|(_, kind)| *kind == "/32 host LOCAL");
    let mut found = Vec::new();
    for address in addresses.filter_map(|(line, _)| line.strip_prefix("|-- ")?.parse::<Ipv4Addr>().ok()) {
        if !address.is_loopback() && !found.contains(&IpAddr::V4(address)) {
            found.push(IpAddr::V4(address));
        }
    }
    found
}

/// The address of an interface: itself, or that from which its network is reached.
pub(super) fn of_interface(interface: &str) -> Result<IpAddr, Failure> {
    if let Ok(address) = interface.parse() {
        return Ok(address);
    }
    let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    let reached = networks(&routes, interface).find_map(|network| {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
        // Nothing is sent: the kernel chooses the address.
        socket.connect((Ipv4Addr::from(u32::from(network) | 1), 9)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    });
    reached.ok_or_else(|| {
        Failure::message(format!("`--interface {interface}`: no address of such an interface"))
            .hint("`ip -brief address` lists interfaces and their addresses")
    })
}

/// Networks that an interface is connected to. Source: `proc_net(5)`: name, destination and mask in hexadecimal, lowest byte first.
fn networks<'a>(routes: &'a str, interface: &'a str) -> impl Iterator<Item = Ipv4Addr> + 'a {
    routes.lines().filter_map(move |line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (name, destination, gateway) = (fields.first()?, fields.get(1)?, fields.get(2)?);
        let destination = u32::from_str_radix(destination, 16).ok()?.swap_bytes();
        (*name == interface && *gateway == "00000000" && destination != 0).then(|| destination.into())
    })
}

/// The addresses that a host's name, or its address, may stand for.
pub(super) fn of_host(host: &str, ports: &[u16]) -> Vec<SocketAddr> {
    let (name, ports) =
        match host.rsplit_once(':').and_then(|(name, port)| Some((name, [port.parse().ok()?]))) {
            Some((name, port)) => (name, port.to_vec()),
            None => (host, ports.to_vec()),
        };
    let found = (name, 0).to_socket_addrs();
    let addresses: Vec<IpAddr> =
        found.map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default();
    let each = |address: &IpAddr| {
        let address = *address;
        ports.iter().map(move |port| SocketAddr::new(address, *port)).collect::<Vec<_>>()
    };
    addresses.iter().filter(|address| address.is_ipv4()).flat_map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_routing_table_tells_addresses_and_networks() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 10.1.0.4\n        \
            /32 host LOCAL\n     |-- 127.0.0.1\n        /32 host LOCAL\nLocal:\n     |-- 10.1.0.4\n        /32 host LOCAL\n";
        assert_eq!(local(trie), [IpAddr::from([10, 1, 0, 4])]);
        let routes = "Iface\tDestination\tGateway \tFlags\neth0\t00000000\t0100010A\t0003\neth0\t0000010A\t00000000\t0001\n\
            ib0\t0000020A\t00000000\t0001\nbroken\n";
        assert_eq!(networks(routes, "eth0").collect::<Vec<_>>(), [Ipv4Addr::new(10, 1, 0, 0)]);
        assert_eq!(networks(routes, "ib1").count(), 0);
    }

    #[test]
    fn a_host_has_its_own_port_or_those_of_the_job() {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(of_host("127.0.0.1", &[1, 2]), [at(1), at(2)]);
        assert_eq!(of_host("127.0.0.1:7", &[1, 2]), [at(7)]);
        assert_eq!(of_host("no host", &[1]), []);
    }
}
