//! Text for Prometheus: the cost of many jobs as gauges. Source: OpenMetrics 1.0, "Text format".

use crate::view::{FleetCost, FleetView};

/// A gauge: its name, its meaning, and its value for a row that has one.
type Gauge = (&'static str, &'static str, fn(&FleetCost) -> Option<f64>);

/// The figures of `quell fleet --json`, one sample a row.
pub fn fleet(fleet: &FleetView) -> String {
    let tables = || fleet.tables.iter().flat_map(|table| table.rows.iter().map(move |row| (&*table.by, row)));
    let mut text = String::new();
    for (name, meaning, value) in GAUGES {
        text += &format!("# TYPE {name} gauge\n# HELP {name} {meaning}\n");
        for (by, row) in std::iter::once(("all", &fleet.all)).chain(tables()) {
            if let Some(value) = value(row) {
                text += &format!("{name}{{by=\"{by}\",name=\"{}\"}} {value}\n", label(&row.name));
            }
        }
    }
    text + "# EOF\n"
}

const GAUGES: [Gauge; 5] = [
    ("quell_fleet_jobs", "Jobs.", |row| Some(row.jobs as f64)),
    ("quell_fleet_operations", "Metadata operations of these jobs.", |row| Some(row.operations as f64)),
    ("quell_fleet_operations_after", "Metadata operations that remain with the remedies.", |row| {
        row.operations_after.map(|after| after as f64)
    }),
    ("quell_fleet_missed", "Metadata operations that failed because the name is absent.", |row| {
        row.missed.map(|missed| missed as f64)
    }),
    ("quell_fleet_duration_seconds", "The duration of these jobs together.", |row| row.seconds),
];

/// The value of a label. A backslash, a quotation mark and a line's end are escaped.
fn label(value: &str) -> String {
    crate::text::clean(value).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::FleetTable;

    #[test]
    fn a_name_cannot_end_its_label() {
        let row = FleetCost { name: "a\"} 1\n\\".to_owned(), jobs: 2, operations: 3, ..FleetCost::default() };
        let all = FleetCost { jobs: 2, operations: 3, seconds: Some(1.5), ..FleetCost::default() };
        let tables = vec![FleetTable { by: "user".to_owned(), rows: vec![row] }];
        let view =
            FleetView { schema_version: 1, data_set: "d".to_owned(), since: None, all, tables, served: None };
        assert_eq!(
            fleet(&view),
            r#"# TYPE quell_fleet_jobs gauge
# HELP quell_fleet_jobs Jobs.
quell_fleet_jobs{by="all",name=""} 2
quell_fleet_jobs{by="user",name="a\"} 1\\x0a\\"} 2
# TYPE quell_fleet_operations gauge
# HELP quell_fleet_operations Metadata operations of these jobs.
quell_fleet_operations{by="all",name=""} 3
quell_fleet_operations{by="user",name="a\"} 1\\x0a\\"} 3
# TYPE quell_fleet_operations_after gauge
# HELP quell_fleet_operations_after Metadata operations that remain with the remedies.
# TYPE quell_fleet_missed gauge
# HELP quell_fleet_missed Metadata operations that failed because the name is absent.
# TYPE quell_fleet_duration_seconds gauge
# HELP quell_fleet_duration_seconds The duration of these jobs together.
quell_fleet_duration_seconds{by="all",name=""} 1.5
# EOF
"#
        );
    }
}
