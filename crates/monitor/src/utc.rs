//! Dates and times of day, in UTC.

/// A date of the Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Date {
    pub(crate) year: i64,
    pub(crate) month: u64,
    pub(crate) day: u64,
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl Date {
    /// That of a time since the Unix epoch, in seconds: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
    pub(crate) fn of(seconds: u64) -> Self {
        let days = seconds / 86_400 + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = (year_of_era + era * 400) as i64 + i64::from(month <= 2);
        Self { year, month, day: of_year - (153 * from_march + 2) / 5 + 1 }
    }

    fn month_name(self) -> &'static str {
        MONTHS.get(self.month as usize - 1).copied().unwrap_or_default()
    }
}

/// `14:05`.
pub(crate) fn time_of_day(seconds: u64) -> String {
    format!("{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60)
}

/// `27 Nov`.
pub(crate) fn day(seconds: u64) -> String {
    let date = Date::of(seconds);
    format!("{} {}", date.day, date.month_name())
}

/// `Nov 2026`.
pub(crate) fn month(seconds: u64) -> String {
    let date = Date::of(seconds);
    format!("{} {}", date.month_name(), date.year)
}

/// `2026-11-27 14:05:09`.
pub(crate) fn whole(seconds: u64) -> String {
    let Date { year, month, day } = Date::of(seconds);
    format!("{year}-{month:02}-{day:02} {}:{:02}", time_of_day(seconds), seconds % 60)
}

/// `2026-11-27T14:05:09Z` (RFC 3339).
pub(crate) fn rfc3339(seconds: u64) -> String {
    whole(seconds).replacen(' ', "T", 1) + "Z"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // By `date -u -d @SECONDS`.
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_709_251_199, "2024-02-29 23:59:59"),
            (1_795_766_709, "2026-11-27 08:05:09"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(whole(seconds), text);
        }
        assert_eq!(rfc3339(1_795_766_709), "2026-11-27T08:05:09Z");
        assert_eq!((day(0), month(951_782_400)), ("1 Jan".to_owned(), "Feb 2000".to_owned()));
    }
}
