//! Warnings about the clock of a session.

use crate::record::recording::Recorded;

/// The warnings about a clock that is at fault; `unsteady` threads have ticks that go back or lie outside of the session.
pub(super) fn faults_of_clock(recorded: &Recorded, unsteady: usize) -> Vec<String> {
    let name = recorded.source.name();
    let cure = "the variable `ZPROF_CLOCK=system` of `init_from_env` takes the system's clock instead";
    let mut warnings = Vec::new();
    if recorded.is_distrusted {
        warnings.push(format!(
            "the system has found the clock `{name}` unstable since the session started; every scope is kept, but its times \
             may be wrong; {cure}"
        ));
    }
    if let Some((lowest, highest)) = recorded.timeline.rates {
        warnings.push(format!(
            "the clock `{name}` changed its rate: it made {lowest} to {highest} ticks a second; times follow the system's \
             clock from second to second; {cure}"
        ));
    }
    let steps = recorded.steady.laps.steps();
    if steps != 0 {
        warnings.push(format!(
            "the clock `{name}` went back {steps} times during the session; every scope is kept, at a time that the system's \
             clock gives; {cure}"
        ));
    } else if unsteady != 0 {
        warnings.push(format!(
            "the clock `{name}` went back on {unsteady} threads, or differs between processors; every scope is kept, but some \
             are shown too short or at another time; {cure}"
        ));
    }
    warnings
}
