//! The flags by which limits of rules are set, and the words that they take.

use clap::Args;
use clap::builder::PossibleValuesParser;
use quell_analyse::LimitsInForce;
use quell_analyse::findings::LIMITS;
use std::str::FromStr;

/// Limits of the findings.
#[derive(Clone, Debug, Default, Args)]
pub struct Limits {
    /// Set a limit of a finding, such as search-path-misses=500; `quell report --thresholds` lists them.
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',')]
    pub threshold: Vec<LimitFlag>,
    /// Object storage targets of the Lustre file system, for advice on striping; `lfs osts` lists them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub osts: Option<u32>,
}

impl Limits {
    /// The limits in force. Of one that is set twice the last counts.
    pub(crate) fn in_force(&self) -> LimitsInForce {
        let thresholds =
            self.threshold.iter().map(|setting| (setting.name.to_owned(), setting.value)).collect();
        LimitsInForce { thresholds, osts: self.osts }
    }
}

/// One limit as it was typed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitFlag {
    name: &'static str,
    value: f64,
}

impl FromStr for LimitFlag {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let (name, value) = word.split_once('=').ok_or("it is no NAME=VALUE")?;
        let names = || LIMITS.iter().map(|limit| limit.threshold.name);
        let known = names().find(|known| *known == name);
        let Some(name) = known else {
            return Err(format!("`{name}` is none of {}", names().collect::<Vec<_>>().join(", ")));
        };
        match value.parse::<f64>() {
            Ok(value) if value.is_finite() && value >= 0.0 => Ok(Self { name, value }),
            _ => Err(format!("`{value}` is no number from 0 up")),
        }
    }
}

/// The word that stands for every code.
pub(crate) const ANY: &str = "any";

/// Codes of findings, and `any`.
pub(crate) fn codes() -> PossibleValuesParser {
    PossibleValuesParser::new(quell_analyse::findings::codes().into_iter().chain([ANY]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_known_name_and_a_number() {
        let value = |word: &str| word.parse::<LimitFlag>().map(|setting| (setting.name, setting.value));
        assert_eq!(value("tiny-writes=10"), Ok(("tiny-writes", 10.0)));
        for bad in ["tiny-writes", "tiny-writes=-1", "tiny-writes=nan", "tiny-writes=inf", "tiny-writes="] {
            assert!(value(bad).is_err(), "{bad}");
        }
        let error = value("tiny=1").expect_err("not known");
        assert!(error.starts_with("`tiny` is none of absent-attributes, chatty-output, "), "{error}");
    }
}
