//! What a program sees of zprof when the `enable` feature is off.

#![forbid(unsafe_code)]

#[cfg(test)]
mod tests {
    #![deny(warnings, clippy::pedantic, clippy::nursery)]

    use std::cell::Cell;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use zprof::TraceFuture as _;

    #[derive(Clone, Copy, zprof::Value)]
    enum Mode {
        Greedy,
    }

    struct Model {
        calls: Cell<u32>,
    }

    impl Model {
        fn link(&self) -> zprof::Flow {
            self.count();
            zprof::flow()
        }

        fn count(&self) -> u32 {
            self.calls.set(self.calls.get() + 1);
            self.calls.get()
        }

        #[zprof::trace(calls = self.count(), root = self.count() > 0, mode = Mode::Greedy)]
        fn traced(&self, only_metadata: u32) -> u32 {
            let only_here = 3;
            zprof::scope!("statement", only_metadata, only_here, calls = self.count());
            let mut span = zprof::span!("span", calls = self.count());
            span.record("key", only_here);
            span.end();
            zprof::instant!("instant", calls = self.count());
            zprof::counter!("counter", self.count());
            zprof::scope!("flow", sends = self.link(), receives = Some(self.link()), {});
            zprof::step!("step", self.count(), calls = self.count(), {});
            zprof::scope!("block", calls = self.count(), { only_metadata + 1 })
        }
    }

    #[zprof::trace]
    impl Model {
        #[zprof::trace(calls = self.count(), ret)]
        fn gives(&self, n: u32) -> u32 {
            n + 1
        }

        #[allow(clippy::future_not_send)] // its model is not Sync, traced or not
        #[zprof::trace(calls = self.count(), ret, err)]
        async fn later(&self, only_metadata: u32) -> Result<u32, String> {
            let described = async { 1 }.traced(zprof::task!("described", only_metadata, calls = self.count()));
            Ok(described.await + 1)
        }
    }

    #[zprof::trace(used_by_metadata)]
    fn argument(used_by_metadata: &str) {}

    #[test]
    fn nothing_is_evaluated_and_nothing_changes() {
        let model = Model { calls: Cell::new(0) };
        assert_eq!(model.traced(1), 2);
        argument("unused otherwise");
        assert_eq!(model.gives(1), 2);
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(pin!(model.later(1)).poll(&mut context), Poll::Ready(Ok(2)));
        assert_eq!(model.calls.get(), 0, "metadata is type-checked, not evaluated");
        assert_eq!([zprof::ENABLED], [false]);
    }

    #[test]
    fn plugins_are_refused_with_the_cure() {
        let error = zprof::Platform::load("/x/y.so").expect_err("there is no loader");
        assert_eq!(error.kind(), zprof::ErrorKind::Unsupported);
        assert_eq!(
            error.to_string(),
            "failed to load PJRT plugin `/x/y.so`: zprof is built without its feature `pjrt`; build with it to use \
             PJRT plugins"
        );
        let platform = zprof::Platform::auto().expect("the host is left");
        assert_eq!(
            platform.describe(),
            "the host alone: zprof is built without its feature `pjrt`; build with it to use PJRT plugins"
        );
    }

    #[test]
    fn a_session_for_a_test_is_refused_with_the_cure() {
        let error = zprof::testing::record(|_| panic!("it is not called")).expect_err("there is no recorder");
        assert_eq!(error.kind(), zprof::ErrorKind::Unsupported);
        assert_eq!(
            error.to_string(),
            "failed to start a session for a test: zprof is built without its feature `enable`, so that nothing would be \
             recorded; give zprof `features = [\"enable\"]` in [dev-dependencies]"
        );
        assert_eq!(zprof::MAX_LEVEL, None);
    }

    #[test]
    fn the_environment_is_not_asked() {
        assert!(!zprof::init_from_env().expect("there is nothing to go wrong"));
    }

    #[test]
    fn a_session_leaves_no_profile() {
        let options = zprof::ProfilerOptions::default().repository_path("/nonexistent/zprof");
        let mut profiler = zprof::Platform::host().profiler(options).expect("the options are fine");
        profiler.start().expect("there is nothing to start");
        zprof::scope!("unseen");
        assert!(profiler.snapshot().expect("there is nothing to write").is_none());
        assert!(zprof::snapshot().expect("there is nothing to write").is_none());
        assert!(profiler.stop().expect("there is nothing to write").is_none());
    }
}
