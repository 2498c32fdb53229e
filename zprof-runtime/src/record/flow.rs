//! Flows: arrows from where something is handed on to where it arrives.

use super::task::new_number;
use crate::ENABLED;
use crate::value::{One, ReceivesWord, SendsWord};

/// A token that ties the scope that hands something on to the one that takes it, in whatever thread: XProf and Perfetto draw
/// an arrow between them, and XProf counts what the receiver does to the step of the sender.
///
/// Made by [`flow`]. It goes along with what is handed on, is taken by `sends = flow` and by `receives = flow`, and costs
/// eight bytes. An `Option` of it does too; `None` is no arrow. One token may be sent or received several times. In XProf's groups
/// each sender has an arrow to each receiver. In Perfetto each receiver has an arrow from the last sender before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow(u64);

/// A new flow, unlike any other of this process.
///
/// ```
/// # use zprof_runtime as zprof;
/// let flow = zprof::flow();
/// let (sender, receiver) = std::sync::mpsc::channel();
/// sender.send(("work", flow)).unwrap();
/// let (work, same) = receiver.recv().unwrap();
/// assert_eq!((work, same), ("work", flow));
/// assert!(!zprof::ENABLED || flow != zprof::flow());
/// ```
#[inline]
#[must_use]
pub fn flow() -> Flow {
    Flow(if ENABLED { new_number() } else { 0 })
}

/// What `sends` and `receives` take.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no flow",
    label = "`sends` and `receives` take a `zprof::Flow`",
    note = "`zprof::flow()` makes one; `Option<Flow>` and references are allowed too (`r#sends = …` records a key called `sends`)"
)]
pub trait Link {
    #[doc(hidden)]
    fn number(&self) -> u64;

    #[doc(hidden)]
    #[inline(always)]
    fn sends(&self) -> One<SendsWord> {
        One::new(self.number())
    }

    #[doc(hidden)]
    #[inline(always)]
    fn receives(&self) -> One<ReceivesWord> {
        One::new(self.number())
    }
}

#[diagnostic::do_not_recommend]
impl Link for Flow {
    #[inline(always)]
    fn number(&self) -> u64 {
        self.0
    }
}

#[diagnostic::do_not_recommend]
impl Link for Option<Flow> {
    #[inline(always)]
    fn number(&self) -> u64 {
        self.map_or(0, |flow| flow.0)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Link + ?Sized> Link for &T {
    #[inline(always)]
    fn number(&self) -> u64 {
        (**self).number()
    }
}
