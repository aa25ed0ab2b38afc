//! A packet as a TUN device gives it with `IFF_NO_PI | IFF_VNET_HDR`, and the one thing the wire reads in it.
//!
//! ```text
//! 0         10                                 26       30
//! | virtio  | IPv4 header: version, ...        | dest.  | ...
//! ```

use std::net::Ipv4Addr;

/// Bytes of `struct virtio_net_hdr`, which the kernel puts before each packet.
const VIRTIO_HEADER: usize = 10;

/// Offset of the destination address in an IPv4 header (RFC 791, section 3.1).
const DESTINATION: usize = 16;

/// Largest packet that a device hands over: the virtio header, and 64 KiB that offload may gather.
pub(crate) const LARGEST: usize = VIRTIO_HEADER + 65_536;

/// Destination of an IPv4 packet; `None` for anything else, such as the IPv6 neighbour discovery of a new device.
pub(crate) fn destination(bytes: &[u8]) -> Option<Ipv4Addr> {
    let header = bytes.get(VIRTIO_HEADER..)?;
    if header.first()? >> 4 != 4 {
        return None;
    }
    let address = header.get(DESTINATION..)?.first_chunk::<4>()?;
    Some(Ipv4Addr::from(*address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(version: u8) -> Vec<u8> {
        let mut bytes = vec![0; VIRTIO_HEADER + 20];
        bytes[VIRTIO_HEADER] = version << 4 | 5;
        bytes[VIRTIO_HEADER + DESTINATION..].copy_from_slice(&[10, 71, 1, 3]);
        bytes
    }

    #[test]
    fn destination_of_ipv4() {
        assert_eq!(destination(&packet(4)), Some(Ipv4Addr::new(10, 71, 1, 3)));
    }

    #[test]
    fn no_destination_in_other_protocols_or_fragments_of_a_header() {
        assert_eq!(destination(&packet(6)), None);
        for length in 0..packet(4).len() {
            assert_eq!(destination(&packet(4)[..length]), None, "length {length}");
        }
    }
}
