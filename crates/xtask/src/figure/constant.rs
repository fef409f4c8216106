//! `--scale-constant`: runs figures with one constant of the machine or the network changed.

use intendant_sim::presets::{MACHINES, NETWORKS};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A field of machine or network files, and the factor by which it is multiplied.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScaledConstant {
    field: String,
    factor: f64,
}

/// Flags that name presets, and the presets.
const MODELS: [(&str, &[(&str, &str)]); 2] = [("--machine", &MACHINES), ("--net", &NETWORKS)];

/// The fields of the presets, those of machines first.
pub(crate) fn fields() -> Vec<String> {
    MODELS.iter().flat_map(|(_, presets)| table(presets[0].1).into_iter().map(|(field, _)| field)).collect()
}

fn table(preset: &str) -> toml::Table {
    toml::from_str(preset).expect("presets are valid")
}

impl FromStr for ScaledConstant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (field, factor) = text.split_once('=').ok_or("write FIELD=FACTOR, as in key_ns=1.5")?;
        if !fields().iter().any(|known| known == field) {
            return Err(format!("there is no constant {field}; there are: {}", fields().join(", ")));
        }
        match factor.parse::<f64>() {
            Ok(factor) if factor > 0.0 && factor.is_finite() => Ok(Self { field: field.to_owned(), factor }),
            _ => Err(format!("'{factor}' is no positive number")),
        }
    }
}

impl fmt::Display for ScaledConstant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.field, self.factor)
    }
}

impl ScaledConstant {
    /// A name for folders.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.field, self.factor)
    }

    /// Replaces the preset that has the constant in the flags of a run by a changed file in `folder`.
    pub(crate) fn apply(&self, flags: &mut [String], folder: &Path) -> Result<(), String> {
        for (flag, presets) in MODELS {
            let Some(at) = flags.iter().position(|given| given == flag) else { continue };
            let Some(name) = flags.get(at + 1) else { continue };
            let Some((_, text)) = presets.iter().find(|(known, _)| known == name) else { continue };
            let mut table = table(text);
            let Some(value) = table.get_mut(&self.field) else { continue };
            if let Some(number) = value.as_integer() {
                *value = toml::Value::Integer((number as f64 * self.factor).round() as i64);
            } else if let Some(number) = value.as_float() {
                *value = toml::Value::Float(number * self.factor);
            } else {
                return Err(format!("{} is {value}, which is no number", self.field));
            }
            let file: PathBuf = folder.join(format!("{name}-{}.toml", self.name()));
            let failed = |error: std::io::Error| format!("{}: {error}", file.display());
            std::fs::create_dir_all(folder).map_err(failed)?;
            std::fs::write(&file, table.to_string()).map_err(failed)?;
            flags[at + 1] = file.display().to_string();
            return Ok(());
        }
        Err(format!("the run '{}' names no preset that has {}", flags.join(" "), self.field))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;
    use intendant_sim::{Machine, presets};

    #[test]
    fn one_constant_of_the_preset_changes() {
        let folder = process::target().join("tmp-scaled-constants");
        let changed = |constant: &str| {
            let mut flags = ["--machine", "xeon-e5-2640v2", "--net", "10gbe"].map(str::to_owned);
            let constant: ScaledConstant = constant.parse().expect("a constant");
            constant.apply(&mut flags, &folder).expect("a preset");
            let read = |at: usize| std::fs::read_to_string(&flags[at]).ok();
            let machine = read(1).map(|text| presets::machine_of(&text).expect("valid"));
            (machine, read(3).map(|text| presets::network_of(&text).expect("valid")))
        };
        let preset = presets::machine("xeon-e5-2640v2").expect("a preset");
        assert_eq!(changed("key_ns=1.5"), (Some(Machine { key_ns: 1_380, ..preset }), None));
        let (machine, network) = changed("gigabits_per_second=0.5");
        let before = presets::network("10gbe").expect("a preset");
        assert_eq!(machine, None);
        assert!(network.is_some_and(|network| network.byte_ps.abs_diff(2 * before.byte_ps) <= 1));
    }

    #[test]
    fn what_is_no_constant_is_refused() {
        let error = |text: &str| text.parse::<ScaledConstant>().expect_err("refused");
        assert!(error("speed=2").contains("there are: ") && error("speed=2").contains("send_ns"));
        assert!(error("key_ns").contains("FIELD=FACTOR"));
        for factor in ["x", "0", "-1", "inf"] {
            assert!(error(&format!("key_ns={factor}")).contains("no positive number"), "{factor}");
        }
        let constant: ScaledConstant = "key_ns=2".parse().expect("a constant");
        let unnamed = constant.apply(&mut ["--nodes".to_owned()], Path::new("/nonexistent"));
        assert!(unnamed.expect_err("no preset").contains("no preset"));
    }
}
