//! The rank of this process among those of one job, as launchers tell it by the environment.

use std::ffi::OsString;

use crate::environment::variable;

/// Variables that hold a rank. Launchers may be nested, as where SLURM starts one torchrun a node, which starts the processes:
/// the launcher that is nearest to the process comes first, and SLURM last.
const VARIABLES: [&str; 10] = [
    "RANK",
    "JAX_PROCESS_ID",
    "JAX_PROCESS_INDEX",
    "OMPI_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "PALS_RANKID",
    "FLUX_TASK_RANK",
    "SLURM_PROCID",
];

/// The rank that the environment gives this process; `None` where it is no part of a job.
pub(super) fn of_process() -> Option<u64> {
    of(variable)
}

/// The first variable that holds a number, as `get` gives the variables.
fn of(get: impl Fn(&str) -> Option<OsString>) -> Option<u64> {
    VARIABLES.iter().find_map(|name| {
        let value = get(name)?;
        let digits = value.to_str()?.trim();
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_launcher_gives_the_rank() {
        let rank = |variables: &[(&str, &str)]| {
            of(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value)))
        };
        assert_eq!(rank(&[]), None);
        for name in VARIABLES {
            assert_eq!(rank(&[(name, "7")]), Some(7), "{name}");
        }
        assert_eq!(rank(&[("SLURM_PROCID", "1"), ("RANK", "12")]), Some(12));
        assert_eq!(rank(&[("SLURM_PROCID", "1"), ("PMI_RANK", "12")]), Some(12));
        for value in ["", "-1", "+1", "x", "1.5", "99999999999999999999", "../1"] {
            assert_eq!(rank(&[("RANK", value)]), None, "{value}");
            assert_eq!(rank(&[("RANK", value), ("SLURM_PROCID", "3")]), Some(3), "{value}");
        }
    }
}
