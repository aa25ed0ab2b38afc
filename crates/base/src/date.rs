//! Dates and times in UTC, formatted for people.

/// A moment in UTC, to the minute: `2026-11-21 12:20`. **Unit** of `since_1970`: seconds.
///
/// **Source** H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`: the proleptic Gregorian
/// calendar in eras of 400 years.
pub fn utc(since_1970: i64) -> String {
    const DAY: i64 = 86_400;
    // Days are counted from 1 March of the year 0, so that a leap day ends a year.
    let days = since_1970.div_euclid(DAY) + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let minutes = since_1970.rem_euclid(DAY) / 60;
    let year = era * 400 + year + next;
    format!("{year:04}-{month:02}-{of_month:02} {:02}:{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn moments_are_those_of_date_1() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00"),
            (-1, "1969-12-31 23:59"),
            (951_782_399, "2000-02-28 23:59"),
            (951_782_400, "2000-02-29 00:00"),
            (951_826_200, "2000-02-29 12:10"),
            (1_709_251_199, "2024-02-29 23:59"),
            (1_795_263_642, "2026-11-21 12:20"),
            (4_107_542_399, "2100-02-28 23:59"),
            (4_107_542_400, "2100-03-01 00:00"),
            (i64::from(i32::MAX), "2038-01-19 03:14"),
        ] {
            assert_eq!(utc(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn every_number_is_a_moment() {
        for seconds in [i64::MIN, i64::MAX] {
            assert!(!utc(seconds).is_empty());
        }
    }
}
