//! The layer that the program puts into its registry: the bridge behind a filter of its own.

use std::any::TypeId;
use std::fmt;

use tracing_core::span::{Attributes, Id, Record};
use tracing_core::subscriber::Interest;
use tracing_core::{Dispatch, Event, LevelFilter, Metadata, Subscriber};
use tracing_subscriber::filter::Filtered;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::{Bridge, Listening};

/// A layer that records spans and events, made by [`layer`](super::layer).
///
/// It brings its own per-layer filter, and takes another one by [`with_filter`](Layer::with_filter).
pub struct ZprofLayer<S> {
    filtered: Filtered<Bridge, Listening, S>,
}

impl<S> ZprofLayer<S> {
    /// Whether spans that are made while nothing records are kept, with their names and fields, so that they are recorded when
    /// they are entered in a later session. Off where it is not said.
    ///
    /// This is for programs that make spans once and enter them for as long as they live, as libraries do that store a span in a
    /// struct, and whose sessions start later. Without it such spans are not in the profile, and a warning says how often they
    /// were entered.
    ///
    /// Every span then costs as much as with any other layer while nothing records, and its fields are formatted and kept: see
    /// [the module](super#levels-and-cost).
    #[must_use]
    pub fn keep_idle_spans(mut self, keep: bool) -> Self {
        self.filtered.inner_mut().keeps_idle = keep;
        self.filtered.filter_mut().keeps_idle = keep;
        self
    }
}

impl<S> ZprofLayer<S>
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    pub(super) fn new(bridge: Bridge) -> Self {
        Self { filtered: bridge.with_filter(Listening { keeps_idle: false }) }
    }
}

impl<S> fmt::Debug for ZprofLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZprofLayer").field("keep_idle_spans", &self.filtered.inner().keeps_idle).finish_non_exhaustive()
    }
}

/// What is new goes through the filter. What concerns a span that exists goes to the bridge itself, which knows its own spans
/// by their ids: so it also hears of spans that the filter did not let through when they were made, and can count them.
impl<S> Layer<S> for ZprofLayer<S>
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    fn on_register_dispatch(&self, subscriber: &Dispatch) {
        self.filtered.on_register_dispatch(subscriber);
    }

    fn on_layer(&mut self, subscriber: &mut S) {
        self.filtered.on_layer(subscriber);
    }

    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.filtered.register_callsite(metadata)
    }

    fn enabled(&self, metadata: &Metadata<'_>, context: Context<'_, S>) -> bool {
        self.filtered.enabled(metadata, context)
    }

    fn event_enabled(&self, event: &Event<'_>, context: Context<'_, S>) -> bool {
        self.filtered.event_enabled(event, context)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.filtered.max_level_hint()
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        self.filtered.on_new_span(attributes, id, context);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        self.filtered.on_event(event, context);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        self.filtered.inner().add_values(id, values);
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, _: Context<'_, S>) {
        self.filtered.inner().follow(id, follows);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        self.filtered.inner().enter(id, || context.metadata(id));
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        self.filtered.inner().exit(id);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.filtered.inner().close(&id, || context.metadata(&id));
    }

    unsafe fn downcast_raw(&self, id: TypeId) -> Option<*const ()> {
        if id == TypeId::of::<Self>() {
            return Some(std::ptr::from_ref(self).cast());
        }
        // A registry finds out in this way that there is a filter for one layer.
        // SAFETY: the caller uses the pointer as one to a value of the type that it asks for, and only for as long as `self` is
        // borrowed, which the filter that is a part of it requires as well.
        unsafe { self.filtered.downcast_raw(id) }
    }
}
