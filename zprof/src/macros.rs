//! The macros that find their own crate: each passes `$crate` on to its procedural half.

/// Records the rest of the enclosing block, or a block of its own, as one scope.
///
/// The name is a string literal, or `dyn` and what gives it; behind it comes metadata, then, in the second form, the block.
///
/// ```
/// # fn load() -> Result<Vec<u8>, std::io::Error> { Ok(vec![0; 4]) }
/// fn step(i: u32) -> Result<usize, std::io::Error> {
///     zprof::scope!("step", i, last = i == 9); // a statement: open to the end of this block
///     let buffers = zprof::scope!("load", { load()? }); // a block: its value is the block's value
///     Ok(buffers.len())
/// }
/// # assert_eq!(step(3).unwrap(), 4);
/// ```
///
/// The statement binds in the caller's block, so it cannot be dropped too early; where a value is expected it does not
/// compile, and [`span!`](crate::span) is what to use. The block is no closure: `?`, `return`, `break` and `continue`
/// work in it. A `{` right behind a comma makes the block; `key = { … }` is a value.
///
/// # Metadata
///
/// `key = expression`, `key` (the variable of that name) and `self.key`, at most 16 of them. Any expression may stand
/// there if its type is a [`Value`](trait@crate::Value). It is taken by reference, once, and only when something
/// listens, so it must do nothing that the program needs, and it cannot leave by `?`, `return` or `.await`.
///
/// ```
/// struct Model { layers: usize }
/// impl Model {
///     fn forward(&self, tokens: &[u32], label: &str) {
///         zprof::scope!("forward", self.layers, label, tokens = tokens.len(), mean = if tokens.is_empty() { 0 } else { 7 });
///     }
/// }
/// # Model { layers: 2 }.forward(&[1], "a");
/// ```
///
/// A value of any other type is recorded as text by `key = %value`, where it implements `Display`, or `key = ?value`, where it
/// implements `Debug`; `%value` and `?value` alone take the variable's name as the key. The text is made only while something
/// listens, and cut to 1,024 bytes.
///
/// ```
/// # let (error, shape) = (std::fmt::Error, [2, 3]);
/// zprof::scope!("retry", %error, ?shape, last = ?shape.last());
/// ```
///
/// # Names
///
/// A name is no format string: `{i}` in it is an error, since what changes is metadata. A brace of the name itself is written
/// twice: `scope!("GET /users/{{id}}")`.
///
/// Behind `dyn` stands an expression that gives the name: a string, read as metadata is, only when something listens. So it
/// may cost something, as `format!` does. What varies much is better metadata, by which viewers do not group: a session keeps
/// 16,384 names of this kind, and the scopes that follow are called by the expression and have their name as the stat
/// `name`. So is a scope called that was open before the session.
///
/// ```
/// # struct Op { name: String }
/// fn run(ops: &[Op]) {
///     for (i, op) in ops.iter().enumerate() {
///         zprof::scope!(dyn op.name, i);
///     }
/// }
/// # run(&[Op { name: "conv".to_owned() }]);
/// ```
///
/// # Reserved arguments
///
/// - `level = critical | info | verbose`: how much detail the scope is; critical where it is not said.
/// - `filter = N`: the bit, 0 to 31, that a session's filter must hold.
/// - `root = <bool>`: the scope is a step of its own, for readers that group by step.
///
/// - `sends = flow` and `receives = flow`: an arrow goes from here to the other end of the [`flow`](crate::flow()), or comes
///   from there.
///
/// `r#level = value` records a key of that name.
///
/// ```
/// # for i in 0..2u64 {
/// zprof::scope!("train", root = true, step_num = i, level = info, filter = 3, r#level = 7);
/// # }
/// ```
///
/// # Flows
///
/// What is handed to another thread, or to later, leaves an arrow in XProf and in Perfetto's native trace; and what the
/// receiver does counts to the step of the sender.
///
/// ```
/// let (sender, receiver) = std::sync::mpsc::channel();
/// let worker = std::thread::spawn(move || {
///     while let Ok((batch, flow)) = receiver.recv() {
///         zprof::scope!("compute", batch, receives = flow);
///     }
/// });
/// for batch in 0..2 {
///     let flow = zprof::flow();
///     zprof::scope!("submit", batch, sends = flow);
///     sender.send((batch, flow)).unwrap();
/// }
/// drop(sender);
/// worker.join().unwrap();
/// ```
///
/// XProf shows one arrow an event: of a scope with both ends, the other belongs on an [`instant!`](crate::instant) inside.
/// The polls of a task are joined by arrows of their own, so `sends` and `receives` stand on what is inside it.
///
/// What a key and a literal may not hold: `#`, which ends the name in the one-line label that annotation tools show;
/// a leading `_` in a key; the same key twice.
#[macro_export]
macro_rules! scope {
    ($($arguments:tt)*) => {
        $crate::__private::__scope! { [$crate] $($arguments)* }
    };
}

/// Opens a scope that is held as a value, of type [`Span`](crate::Span): it ends when it is dropped or by
/// [`end`](crate::Span::end), and takes more metadata on the way by [`record`](crate::Span::record).
///
/// Arguments are those of [`scope!`](crate::scope), without a block.
///
/// ```
/// let mut span = zprof::span!("read", path = "weights.bin");
/// let bytes = [0_u8; 16];
/// span.record("bytes", bytes.len());
/// span.end();
/// ```
#[macro_export]
macro_rules! span {
    ($($arguments:tt)*) => {
        $crate::__private::__span! { [$crate] $($arguments)* }
    };
}

/// Records a step, such as one of a training loop: a [`scope!`](crate::scope) that readers group by.
///
/// A number follows the name; the rest is as with `scope!`, in both forms. It is the same as
/// `scope!("name", root = true, step_num = n)`: XProf shows the step as `<name> <n>`, and counts what is inside it on the
/// same thread to it, and what [`flow`](crate::flow())s lead to from there.
///
/// ```
/// let mut loss = 1.0;
/// for n in 0..3 {
///     zprof::step!("train", n, rate = 0.5); // a statement: open to the end of this block
///     loss = zprof::step!("inner", n, { loss * 0.5 }); // a block: its value is the block's value
/// }
/// # assert_eq!(loss, 0.125);
/// ```
#[macro_export]
macro_rules! step {
    ($($arguments:tt)*) => {
        $crate::__private::__step! { [$crate] $($arguments)* }
    };
}

/// Records that something happens, now: an event without length on the line of its thread.
///
/// Arguments are those of [`scope!`](crate::scope), without a block and without `root`. XProf and the JSON show it as a
/// slice of 1 ps, Perfetto's native trace as an instant, and tools as a mark.
///
/// ```
/// # let (key, entries) = ("a", 3);
/// zprof::instant!("cache.evict", key, left = entries - 1, level = info);
/// ```
#[macro_export]
macro_rules! instant {
    ($($arguments:tt)*) => {
        $crate::__private::__instant! { [$crate] $($arguments)* }
    };
}

/// Records the value that a counter has now: viewers draw the curve of all its values.
///
/// The value is an integer of at most 64 bits or a float, and its key, where one is given, is its unit. What has one name
/// is one counter of the process, whichever threads and places the values come from; it keeps one unit. `level` and `filter`
/// may follow, as in [`scope!`](crate::scope). Tools do not see counters.
///
/// ```
/// # let queue = vec![1, 2];
/// zprof::counter!("queue", queue.len());
/// zprof::counter!("weights", bytes = 4 * queue.len(), level = info);
/// ```
#[macro_export]
macro_rules! counter {
    ($($arguments:tt)*) => {
        $crate::__private::__counter! { [$crate] $($arguments)* }
    };
}

/// Describes a future for [`traced`](crate::TraceFuture::traced): a name and metadata, as an owned value of type
/// [`Task`](crate::Task).
///
/// Arguments are those of [`scope!`](crate::scope), without a block; a name may stand behind `dyn`. All of it is taken here, by
/// copy, if something listens; the task begins at the future's first poll.
///
/// ```
/// use zprof::TraceFuture as _;
///
/// async fn fetch(shard: u32) -> u32 {
///     shard * 2
/// }
///
/// async fn both() -> u32 {
///     let first = fetch(1).traced(zprof::task!("fetch", shard = 1));
///     let second = fetch(2).traced(zprof::task!("fetch", shard = 2));
///     first.await + second.await
/// }
/// # let mut both = std::pin::pin!(both());
/// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert_eq!(both.as_mut().poll(&mut context), std::task::Poll::Ready(6));
/// ```
#[macro_export]
macro_rules! task {
    ($($arguments:tt)*) => {
        $crate::__private::__task! { [$crate] $($arguments)* }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __a_scope_is_a_statement_end_it_with_a_semicolon_or_use_span_to_hold_it {
    ($($opening:tt)*) => {
        let __zprof_guard = $($opening)*;
    };
}
