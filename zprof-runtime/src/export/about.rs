//! Facts about a session that its XSpace holds: when it started and stopped, and which program it profiled.

use std::collections::HashMap;

use super::timeline::text;
use crate::Result;
use crate::xspace::names::{PROCESS_ID, PROCESS_NAME, PROFILE_START_TIME, PROFILE_STOP_TIME, TASK_ENVIRONMENT};
use crate::xspace::reader::{PlaneHeader, Value, each_plane, each_plane_stat, each_stat_metadata};
use crate::xspace::window::{Extent, Window};
use crate::xspace::wire::wide;

/// The program that was profiled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Process {
    /// Its name, which is not empty.
    pub name: String,
    /// The operating system's id of its process, if the profile has one.
    pub id: Option<u32>,
}

impl Process {
    /// The name with the id behind it, as in `llm (pid 4711)`.
    #[must_use]
    pub fn label(&self) -> String {
        self.id.map_or_else(|| self.name.clone(), |id| format!("{} (pid {id})", self.name))
    }

    /// The name for a process that a trace gives this id: with the real id behind it, if that is another one.
    pub(super) fn shown_as(&self, id: u32) -> String {
        if self.id.is_none_or(|own| own == id) { self.name.clone() } else { self.label() }
    }
}

/// What the plane `Task Environment` of an XSpace says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct About {
    /// Start of the session in nanoseconds since the Unix epoch; `None` if the space does not say, or says 0.
    pub(super) start_ns: Option<u64>,
    /// End of the session, likewise.
    pub(super) stop_ns: Option<u64>,
    pub(super) process: Option<Process>,
}

impl About {
    /// Reads the plane `Task Environment`, where the space has one. The last value of each stat counts.
    pub(super) fn read(window: &mut Window<'_>) -> Result<Self> {
        let (mut about, mut name, mut id) = (Self::default(), String::new(), None);
        each_plane(window, |window, header| {
            if !is_environment(window, &header)? {
                return Ok(());
            }
            let mut names: HashMap<i64, Extent> = HashMap::new();
            each_stat_metadata(window, header.body, |_, id, name| {
                names.insert(id, name);
                Ok(())
            })?;
            each_plane_stat(window, header.body, |window, stat| {
                let Some(&key) = names.get(&stat.metadata_id) else { return Ok(()) };
                let number = match stat.value {
                    Value::Uint(value) => Some(value),
                    Value::Int(value) => u64::try_from(value).ok(),
                    _ => None,
                };
                let number = number.filter(|number| *number != 0);
                let key = text(window, key)?;
                match (key.as_str(), stat.value) {
                    (PROFILE_START_TIME, _) => about.start_ns = number,
                    (PROFILE_STOP_TIME, _) => about.stop_ns = number,
                    (PROCESS_ID, _) => id = number.and_then(|number| u32::try_from(number).ok()),
                    (PROCESS_NAME, Value::Str(value)) => name = text(window, value)?,
                    (PROCESS_NAME, Value::Ref(value)) => {
                        name = names.get(&value).map_or(Ok(String::new()), |&value| text(window, value))?;
                    }
                    _ => {}
                }
                Ok(())
            })
        })?;
        about.process = (!name.is_empty()).then_some(Process { name, id });
        Ok(about)
    }

    /// How long the session lasted, in picoseconds, if that is known.
    pub(super) fn lasted_ps(&self) -> Option<i128> {
        let lasted_ns = self.stop_ns?.checked_sub(self.start_ns?)?;
        Some(i128::from(lasted_ns) * 1_000)
    }
}

fn is_environment(window: &mut Window<'_>, header: &PlaneHeader) -> Result<bool> {
    Ok(header.name.len == wide(TASK_ENVIRONMENT.len()) && window.piece(header.name)? == TASK_ENVIRONMENT.as_bytes())
}
