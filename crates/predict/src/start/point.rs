//! The forecast of a start: a point of the curve, and what holds of all points.

use crate::PerOperation;
use crate::forecast::{Forecast, ForecastPoint, Spread};

/// The forecast of a program's start.
pub type StartForecast = Forecast<StartDetail, StartSummary>;

/// A point of a start, beside its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StartDetail {
    /// Of a rank, from its own start, over all, the launch included. Unit: seconds.
    pub mean: Spread,
    /// At servers that are more than ten times over capacity, of a node that starts with the last ones, with every figure at its median. Unit:
    /// seconds.
    pub waits: f64,
    /// Demand divided by capacity, of the busiest server, while nodes do not slow each other down.
    pub load: f64,
    /// Requests at the servers, of all nodes.
    pub operations: PerOperation,
    /// Data that the data servers send. Unit: bytes.
    pub bytes: f64,
}

/// A start as a whole, beside its points.
#[derive(Clone, Debug, PartialEq)]
pub struct StartSummary {
    /// The number of nodes at which a shared server, or the shared cores, are fully used; with more nodes, time grows in proportion
    /// to their number. Calculated for the nodes of the last point; infinite when nothing is shared.
    pub knee: f64,
    /// The time of the last point with every figure at its median, the launch included. Unit: seconds.
    pub at_medians: f64,
    /// The knee is a lower limit: it would be another if rates that are only lower limits were higher.
    pub is_knee_lower_limit: bool,
    /// The time of the last point in each run from the last start on, without the launch. Shape: in the order of the runs. Unit: seconds.
    pub runs: Vec<f64>,
    /// Keys that were taken from the wide prior.
    pub assumed: Vec<&'static str>,
    /// Computing of one rank. Unit: seconds.
    pub think: f64,
    /// Size of the image, where one was asked for. Unit: bytes.
    pub image_bytes: Option<f64>,
    /// The file of which most is read. `None` where the file system's data servers send nothing.
    pub most_read: Option<MostReadFile>,
}

/// The file of which a start reads most: its image, or a file of the program. Its servers are full first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MostReadFile {
    /// It is the image.
    pub is_image: bool,
    /// Its share of the data that a node reads. Range: above 0, at most 1.
    pub share: f64,
    /// Data servers that it is spread over.
    pub servers: f64,
    /// Data servers that are busy while its own are full.
    pub servers_at_once: f64,
    /// All data servers.
    pub data_servers: f64,
}

impl ForecastPoint<StartDetail> {
    /// True if the servers cannot keep up: demand divided by capacity is above 1.
    pub fn is_saturated(&self) -> bool {
        self.detail.load > 1.0
    }

    /// True if the backlog is one under which real file systems have failed. Source: on Hopper, starts of Pynamic hung
    /// beyond 2048 cores, some ten times the knee of the curve by Zhao et al. A backlog that is gone sooner than a client gives a request
    /// up fails no request: NFS waits for 60 s (`timeo`), Lustre for 100 s (`obd_timeout`).
    pub fn may_fail(&self) -> bool {
        self.detail.waits > 10.0
    }
}

/// The load above which servers may fail: see [`ForecastPoint::may_fail`].
pub(super) const FAILING_LOAD: f64 = 10.0;
