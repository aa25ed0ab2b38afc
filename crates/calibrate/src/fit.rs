//! The closed law: what a server can do and how far away it is, from the throughput of 1, 2, 4 ... requests at once.
//!
//! A machine repairman: `n` customers, each at a delay `Z` (network and client, no customer waits for another there) and then
//! at one server with service time `s` and a queue. Throughput by exact mean value analysis, for k = 1 to n:
//!
//! ```text
//! R(k) = s (1 + Q(k-1))      X(k) = k / (Z + R(k))      Q(k) = X(k) R(k)
//! ```
//!
//! Source: Reiser and Lavenberg, "Mean-value analysis of closed multichain queuing networks", JACM 27(2), 1980, eq. 1-3 for
//! one queue and a delay. Assumed: service times are exponential, one request is served at a time. A server with several
//! threads looks like a faster one, a regular service bends later: the fit's error shows it.

/// One measurement: so many requests at once gave so many a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClosedLawPoint {
    /// Requests at once. Range: from 1.
    pub population: u32,
    /// Operations a second. Range: above 0.
    pub rate: f64,
}

/// The fitted times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClosedLaw {
    /// Service time at the server. Unit: microseconds.
    pub service_us: f64,
    /// Everything else of an operation. Unit: microseconds.
    pub delay_us: f64,
    /// Root mean square of `ln(measured / fitted)`: 0.1 is ten percent.
    pub error: f64,
    /// The utilisation of the server with the most requests at once. Range: 0 to 1.
    pub utilisation: f64,
}

impl ClosedLaw {
    /// Operations a second with so many requests at once.
    pub fn rate(&self, population: u32) -> f64 {
        rate(population, self.service_us, self.delay_us)
    }

    /// Operations a second of the saturated server.
    pub fn saturated_rate(&self) -> f64 {
        1e6 / self.service_us
    }

    /// True if the measurements reach the bend: without it only a least rate is known.
    pub fn is_saturated(&self) -> bool {
        self.utilisation >= SATURATED
    }
}

/// Above this utilisation the service time is what limits the largest measured throughput: half a queue of one on top of
/// it changes the rate by less than a tenth.
const SATURATED: f64 = 0.85;

/// Largest population that is computed; a load never has more.
const MOST: u32 = 4096;

fn rate(population: u32, service_us: f64, delay_us: f64) -> f64 {
    let (mut queue, mut rate) = (0.0, 0.0);
    for customers in 1..=population.min(MOST) {
        let residence = service_us * (1.0 + queue);
        rate = f64::from(customers) / (delay_us + residence);
        queue = rate * residence;
    }
    rate * 1e6
}

/// Fits both times by least squares of logarithms, on a grid that is refined around its best point.
///
/// `None` with fewer than two populations: one throughput cannot tell two times.
pub fn fit(points: &[ClosedLawPoint]) -> Option<ClosedLaw> {
    let points: Vec<ClosedLawPoint> =
        points.iter().copied().filter(|point| point.rate > 0.0 && point.rate.is_finite()).collect();
    let least = points.iter().min_by_key(|point| point.population)?;
    let most = points.iter().max_by_key(|point| point.population)?;
    if least.population == most.population {
        return None;
    }
    let cycle = 1e6 * f64::from(least.population) / least.rate;
    let fastest = points.iter().map(|point| point.rate).fold(0.0, f64::max);
    let mut best = (0.5 * (1e6 / fastest).ln() + 0.5 * cycle.min(1e6 / fastest).ln(), cycle.ln());
    let mut span = LARGEST_SPAN;
    while span > SMALLEST_SPAN {
        best = refined(&points, best, span);
        span *= 0.3;
    }
    let (service_us, delay_us) = (best.0.exp(), best.1.exp());
    let error = (misfit(&points, service_us, delay_us) / points.len() as f64).sqrt();
    let utilisation = (rate(most.population, service_us, delay_us) * service_us / 1e6).min(1.0);
    Some(ClosedLaw { service_us, delay_us, error, utilisation })
}

/// The search begins a factor of e^5 around the guess, and ends where neighbours differ by less than 0.1 %.
const LARGEST_SPAN: f64 = 5.0;
const SMALLEST_SPAN: f64 = 0.005;
/// Steps to each side of the best point so far.
const STEPS: i32 = 8;

fn refined(points: &[ClosedLawPoint], around: (f64, f64), span: f64) -> (f64, f64) {
    let step = |number: i32| span * f64::from(number) / f64::from(STEPS);
    let candidates = (-STEPS..=STEPS)
        .flat_map(|s| (-STEPS..=STEPS).map(move |z| (around.0 + step(s), around.1 + step(z))));
    let worth = |(s, z): (f64, f64)| misfit(points, s.exp(), z.exp());
    candidates.map(|at| (worth(at), at)).min_by(|a, b| a.0.total_cmp(&b.0)).map_or(around, |(_, at)| at)
}

fn misfit(points: &[ClosedLawPoint], service_us: f64, delay_us: f64) -> f64 {
    points.iter().map(|point| (point.rate / rate(point.population, service_us, delay_us)).ln().powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points(service_us: f64, delay_us: f64, populations: &[u32]) -> Vec<ClosedLawPoint> {
        populations
            .iter()
            .map(|&population| ClosedLawPoint { population, rate: rate(population, service_us, delay_us) })
            .collect()
    }

    #[test]
    fn the_law_equals_closed_forms() {
        // One customer never waits.
        assert!((rate(1, 40.0, 960.0) - 1000.0).abs() < 1e-9);
        // No delay: the server is always busy, with any number of customers.
        assert!((rate(7, 40.0, 0.0) - 25_000.0).abs() < 1e-6);
        // Machine repairman with two machines: X = 2 (s + Z) / (2 s^2 + 2 s Z + Z^2), from its three states.
        let (s, z) = (3.0, 5.0);
        let expected = 2.0 * (s + z) / (2.0 * s * s + 2.0 * s * z + z * z) * 1e6;
        assert!((rate(2, s, z) / expected - 1.0).abs() < 1e-12);
    }

    #[test]
    fn one_population_tells_nothing() {
        assert_eq!(fit(&[]), None);
        assert_eq!(fit(&points(40.0, 960.0, &[4, 4])), None);
        assert_eq!(
            fit(&[
                ClosedLawPoint { population: 1, rate: 0.0 },
                ClosedLawPoint { population: 2, rate: f64::NAN }
            ]),
            None
        );
    }

    #[test]
    fn a_server_that_is_not_reached_is_not_called_saturated() {
        let law = fit(&points(10.0, 1000.0, &[1, 2, 4])).expect("three populations");
        assert!(!law.is_saturated(), "{law:?}");
        let law = fit(&points(100.0, 1000.0, &[1, 2, 4, 8, 64])).expect("five populations");
        assert!(law.is_saturated(), "{law:?}");
    }

    proptest! {
        #[test]
        fn both_times_come_back_from_their_own_throughputs(service in 5.0..500.0f64, delay in 20.0..3000.0f64) {
            let law = fit(&points(service, delay, &[1, 2, 4, 8, 64])).expect("five populations");
            prop_assert!(law.error < 0.01, "{law:?}");
            if law.is_saturated() {
                prop_assert!((law.service_us / service - 1.0).abs() < 0.03, "{law:?}");
            }
            prop_assert!(((law.service_us + law.delay_us) / (service + delay) - 1.0).abs() < 0.03, "{law:?}");
        }

        #[test]
        fn noise_of_five_percent_moves_a_saturated_rate_by_little(noise in prop::collection::vec(0.95..1.05f64, 5)) {
            let mut points = points(100.0, 1000.0, &[1, 2, 4, 8, 64]);
            for (point, noise) in points.iter_mut().zip(noise) {
                point.rate *= noise;
            }
            let law = fit(&points).expect("five populations");
            prop_assert!((law.service_us / 100.0 - 1.0).abs() < 0.15, "{law:?}");
        }
    }
}
