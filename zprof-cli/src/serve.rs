//! A server of one file to one web page: it listens on the loopback address only and knows a single name, which cannot be
//! guessed.
//!
//! Each connection carries one request. Requests are parsed by httparse, byte ranges by http-range-header; a general server
//! would bring an async runtime for an answer that is always the same. None of them limits a client's time, so that is here.
//!
//! | request | answer |
//! |---|---|
//! | for another host name, or from another page (`Origin`) | 403, without the headers that would let a page read it |
//! | `GET` of the entrance, once, from a process of this user | 302 to the page, whose address has the secret path |
//! | another path | 404 |
//! | `GET`, `HEAD` | the file; 206 or 416 for one byte range |
//! | `OPTIONS` | 204: what the page may ask |
//! | another method | 405 |
//! | not HTTP, no `Host`, or two | 400; 431 if it is too long |

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http_range_header::RangeUnsatisfiableError;
use httparse::{Request, Status};

use crate::files::is_too_many;

/// The longest head of a request; browsers send less than one of these.
const HEAD_BYTES: usize = 16 << 10;
const HEAD_FIELDS: usize = 100;
/// How long a client may take to send the head, all of it.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a client may take nothing of the file before it counts as gone.
const STALL_TIME: Duration = Duration::from_secs(120);
/// How long a client may take to close the connection once it has its answer.
const CLOSE_TIME: Duration = Duration::from_secs(2);
/// Connections at a time, a thread each. When there are as many, a new one takes the place of the one that has been waiting
/// for its client the longest, once that has had its chance.
const CONNECTIONS: usize = 64;
const CHANCE: Duration = Duration::from_millis(250);
const CHUNK: usize = 64 << 10;

/// What is served, to whom, and where.
pub(crate) struct Server {
    listener: TcpListener,
    address: SocketAddr,
    offer: Arc<Offer>,
}

struct Offer {
    /// The position is shared: whoever reads seeks first.
    file: Mutex<File>,
    size: u64,
    /// The one path that is answered.
    path: String,
    /// Leads a browser to the page, once.
    entrance: Mutex<Entrance>,
    /// The page that may ask: its scheme and host.
    origin: &'static str,
    /// What a browser calls this server; another name means that a foreign name was pointed at this machine.
    hosts: [String; 2],
}

/// A second path, which the browser's command line may show to everybody: other users see the arguments of a process. The first
/// request for it, which must come from a process of this user, is sent on to the page; from then on it is worth nothing.
#[derive(Default)]
struct Entrance {
    /// Empty where there is none.
    path: String,
    /// The page's address, until it is given away.
    page: Option<String>,
}

/// Who has sent a request, and to which of our addresses.
#[derive(Clone, Copy)]
struct Client {
    from: SocketAddr,
    to: SocketAddr,
}

impl Server {
    /// Listens on `port` of the loopback address, 0 for any, to serve the whole of `file` under an unguessable path that ends
    /// in `name`, a name of letters, digits, `.`, `-` and `_`.
    pub(crate) fn new(port: u16, file: File, name: &str, origin: &'static str) -> Result<Self> {
        let listener = bind(port)?;
        let address = listener.local_addr().context("failed to ask for the port that was taken")?;
        let size = file.metadata().context("failed to ask for the size of the trace")?.len();
        let port = address.port();
        let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        let (file, entrance) = (Mutex::new(file), Mutex::default());
        let offer = Offer { file, size, path: format!("/{}/{name}", token()?), entrance, origin, hosts };
        Ok(Self { listener, address, offer: Arc::new(offer) })
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn size(&self) -> u64 {
        self.offer.size
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}{}", self.address, self.offer.path)
    }

    /// An address that leads the first who asks, a process of this user, to `page`.
    pub(crate) fn entrance(&self, page: String) -> Result<String> {
        let path = format!("/open/{}", token()?);
        let url = format!("http://{}{path}", self.address);
        *lock(&self.offer.entrance) = Entrance { path, page: Some(page) };
        Ok(url)
    }

    /// Serves, with `once` until one client has the whole file, else for ever.
    pub(crate) fn run(self, once: bool) -> Result<()> {
        let (events, fetched) = mpsc::channel();
        let Self { listener, offer, .. } = self;
        thread::Builder::new()
            .name("zprof-accept".to_owned())
            .spawn(move || accept(&listener, &offer, &events))
            .context("failed to start the server's thread")?;
        for event in fetched {
            event.context("failed to accept a connection")?;
            if once {
                break;
            }
        }
        Ok(())
    }
}

/// Takes a port of the loopback address; the message of a failure says who may have it.
pub(crate) fn bind(port: u16) -> Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| {
        format!(
            "failed to listen on port {port} of 127.0.0.1; if it is in use, perhaps by another `zprof view` or by \
             `trace_processor`, end that or take another with `--port`"
        )
    })
}

/// A word of 128 random bits.
fn token() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).context("failed to get random bytes from the system")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn accept(listener: &TcpListener, offer: &Arc<Offer>, events: &Sender<io::Result<()>>) {
    let open = Arc::new(Connections::default());
    for id in 0.. {
        let stream = match listener.accept() {
            Ok((stream, _)) => Arc::new(stream),
            // The client went away before its turn.
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) => continue,
            // The process may have fewer open files than connections: others must not end the server by opening some.
            Err(error) if is_too_many(&error) && open.make_room() => continue,
            Err(error) => {
                // With no receiver the program is about to end.
                let _ = events.send(Err(error));
                return;
            }
        };
        open.admit(id, &stream);
        let (offer, events, connections) = (Arc::clone(offer), events.clone(), Arc::clone(&open));
        let spawned = thread::Builder::new().name("zprof-serve".to_owned()).spawn(move || {
            // An error means that the client is gone or says nothing: there is nobody to tell.
            let whole = answer(&stream, &offer, || connections.set_waits(id, false));
            connections.set_waits(id, true);
            if whole.is_ok_and(|whole| close(&stream).is_ok() && whole) {
                let _ = events.send(Ok(()));
            }
            // Closed before others are told that there is room.
            drop(stream);
            connections.leave(id);
        });
        if spawned.is_err() {
            open.leave(id);
        }
    }
}

/// The connections that are open.
#[derive(Default)]
struct Connections {
    open: Mutex<Open>,
    /// Told of whatever may make room.
    changed: Condvar,
}

/// Connections by their numbers.
type Open = BTreeMap<u64, Connection>;

struct Connection {
    stream: Arc<TcpStream>,
    /// Since when we wait for the client; `None` while the file is sent to it.
    waits_since: Option<Instant>,
}

impl Connections {
    /// Adds a connection when there is room for it; those that have not been accepted yet wait in the system's queue.
    fn admit(&self, id: u64, stream: &Arc<TcpStream>) {
        let mut open = lock(&self.open);
        while open.len() >= CONNECTIONS {
            open = self.push_out(open);
        }
        open.insert(id, Connection { stream: Arc::clone(stream), waits_since: Some(Instant::now()) });
    }

    /// Waits until there is a connection less, because the process can have no more open files; `false` where none is open.
    fn make_room(&self) -> bool {
        let mut open = lock(&self.open);
        let before = open.len();
        while open.len() >= before && !open.is_empty() {
            open = self.push_out(open);
        }
        if before > 0 {
            // One that was pushed out is closed when its thread has seen that.
            drop(self.changed.wait_timeout(open, CHANCE));
        }
        before > 0
    }

    /// Closes the connection that has been waiting for its client the longest, if it has had its chance, or waits for a change.
    fn push_out<'g>(&'g self, mut open: MutexGuard<'g, Open>) -> MutexGuard<'g, Open> {
        let waiting = open.iter().filter_map(|(id, other)| Some((*id, other.waits_since?)));
        let Some((oldest, since)) = waiting.min_by_key(|(_, since)| *since) else {
            return self.changed.wait(open).unwrap_or_else(PoisonError::into_inner);
        };
        let left = CHANCE.saturating_sub(since.elapsed());
        if !left.is_zero() {
            return self.changed.wait_timeout(open, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some(oldest) = open.remove(&oldest) {
            // Its thread then reads the end of the stream; if it is closed already, so much the better.
            let _ = oldest.stream.shutdown(Shutdown::Both);
        }
        open
    }

    fn set_waits(&self, id: u64, waits: bool) {
        if let Some(connection) = lock(&self.open).get_mut(&id) {
            connection.waits_since = waits.then(Instant::now);
        }
        self.changed.notify_all();
    }

    fn leave(&self, id: u64) {
        lock(&self.open).remove(&id);
        self.changed.notify_all();
    }
}

/// Nothing is left half done by a panic under one of our locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An answer without its body, which is a part of the file.
#[derive(Debug, PartialEq)]
struct Reply {
    status: &'static str,
    fields: Vec<(&'static str, String)>,
    body: Range<u64>,
}

impl Reply {
    fn empty(status: &'static str) -> Self {
        Self { status, fields: vec![], body: 0..0 }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    fn head(&self) -> String {
        let mut head = format!("HTTP/1.1 {}\r\n", self.status);
        for (name, value) in &self.fields {
            head.extend([name, ": ", value, "\r\n"]);
        }
        // 204 has no length by definition.
        if !self.status.starts_with("204") && self.fields.iter().all(|(name, _)| *name != "Content-Length") {
            head.push_str("Content-Length: 0\r\n");
        }
        head + "Connection: close\r\n\r\n"
    }
}

/// Reads a request and answers it; says whether that was the whole file.
fn answer(stream: &TcpStream, offer: &Offer, sends: impl FnOnce()) -> io::Result<bool> {
    stream.set_write_timeout(Some(STALL_TIME))?;
    let reply = read_request(stream, offer)?;
    if !reply.body.is_empty() {
        sends();
    }
    let mut out = stream;
    out.write_all(reply.head().as_bytes())?;
    let mut chunk = vec![0; CHUNK];
    let mut next = reply.body.start;
    while next < reply.body.end {
        // At most a chunk: the conversion cannot lose.
        let length = usize::try_from(reply.body.end - next).map_or(CHUNK, |left| left.min(CHUNK));
        let part = &mut chunk[..length];
        {
            let mut file = lock(&offer.file);
            file.seek(SeekFrom::Start(next))?;
            file.read_exact(part)?;
        }
        out.write_all(part)?;
        next += length as u64; // At most a chunk.
    }
    Ok(reply.body == (0..offer.size) && reply.status.starts_with("200"))
}

fn read_request(stream: &TcpStream, offer: &Offer) -> io::Result<Reply> {
    let client = Client { from: stream.peer_addr()?, to: stream.local_addr()? };
    let deadline = Instant::now() + HEAD_TIME;
    let mut head = Vec::new();
    loop {
        let read = read_until(stream, deadline, &mut head)?;
        let mut fields = [httparse::EMPTY_HEADER; HEAD_FIELDS];
        let mut request = Request::new(&mut fields);
        match request.parse(&head) {
            Ok(Status::Complete(_)) => return Ok(offer.reply(&request, client)),
            Ok(Status::Partial) if read == 0 => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(Status::Partial) if head.len() < HEAD_BYTES => {}
            Ok(Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                return Ok(Reply::empty("431 Request Header Fields Too Large"));
            }
            Err(_) => return Ok(Reply::empty("400 Bad Request")),
        }
    }
}

/// Appends what has come, and waits for it until `deadline`; 0 is the end of the stream.
fn read_until(mut stream: &TcpStream, deadline: Instant, to: &mut Vec<u8>) -> io::Result<usize> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(Some(left))?;
    let mut part = [0; 4096];
    let read = stream.read(&mut part)?;
    to.extend_from_slice(&part[..read]);
    Ok(read)
}

/// Waits until the client has closed its side: closing ours over unread bytes would take the answer back from it.
fn close(stream: &TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    let deadline = Instant::now() + CLOSE_TIME;
    let mut unread = Vec::new();
    while unread.len() < HEAD_BYTES {
        match read_until(stream, deadline, &mut unread) {
            Ok(0) => break,
            Ok(_) => {}
            // It holds the connection, which does not mean that it has not read.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Offer {
    fn reply(&self, request: &Request<'_, '_>, client: Client) -> Reply {
        let mut hosts = values(request, "Host");
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Reply::empty("400 Bad Request");
        };
        let origins: Vec<&[u8]> = values(request, "Origin").collect();
        let stranger = origins.iter().any(|origin| *origin != self.origin.as_bytes());
        if stranger || !self.hosts.iter().any(|name| name.as_bytes() == host) {
            return Reply::empty("403 Forbidden");
        }
        let mut reply = self.reply_to_friend(request, client);
        if !origins.is_empty() {
            reply.fields.insert(0, ("Access-Control-Allow-Origin", self.origin.to_owned()));
        }
        reply
    }

    fn reply_to_friend(&self, request: &Request<'_, '_>, client: Client) -> Reply {
        const METHODS: &str = "GET, HEAD, OPTIONS";
        let mut entrance = lock(&self.entrance);
        if !entrance.path.is_empty() && request.path == Some(&entrance.path) {
            return entrance.reply(request.method, client);
        }
        drop(entrance);
        if request.path != Some(&self.path) {
            return Reply::empty("404 Not Found");
        }
        match request.method {
            Some("GET") => self.part(request),
            Some("HEAD") => Reply { body: 0..0, ..self.whole() },
            Some("OPTIONS") if values(request, "Access-Control-Request-Method").next().is_some() => {
                let reply = Reply::empty("204 No Content")
                    .with("Access-Control-Allow-Methods", "GET, HEAD")
                    .with("Access-Control-Allow-Headers", "Range");
                // What a browser asks before it lets a page of the internet reach this machine.
                if values(request, "Access-Control-Request-Private-Network").any(|value| value == b"true") {
                    reply.with("Access-Control-Allow-Private-Network", "true")
                } else {
                    reply
                }
            }
            Some("OPTIONS") => Reply::empty("204 No Content").with("Allow", METHODS),
            _ => Reply::empty("405 Method Not Allowed").with("Allow", METHODS),
        }
    }

    fn whole(&self) -> Reply {
        let reply = Reply { status: "200 OK", fields: vec![], body: 0..self.size };
        described(reply.with("Content-Length", self.size.to_string()))
    }

    /// The range that is asked for, or the whole file: a server may ignore ranges, and ignores what it cannot understand.
    fn part(&self, request: &Request<'_, '_>) -> Reply {
        let mut ranges = values(request, "Range");
        // A part of another version could not be told from ours, which has no name.
        let conditional = values(request, "If-Range").next().is_some();
        let (Some(range), None, false) = (ranges.next(), ranges.next(), conditional) else {
            return self.whole();
        };
        let range = std::str::from_utf8(range).ok().and_then(|range| http_range_header::parse_range_header(range).ok());
        match range.map(|ranges| ranges.validate(self.size)) {
            Some(Ok(ranges)) if ranges.len() == 1 => {
                let (start, end) = (*ranges[0].start(), *ranges[0].end());
                let reply = Reply { status: "206 Partial Content", fields: vec![], body: start..end + 1 };
                described(
                    reply
                        .with("Content-Length", (end + 1 - start).to_string())
                        .with("Content-Range", format!("bytes {start}-{end}/{}", self.size)),
                )
            }
            Some(Err(RangeUnsatisfiableError::Unsatisfiable)) => described(
                Reply::empty("416 Range Not Satisfiable").with("Content-Range", format!("bytes */{}", self.size)),
            ),
            _ => self.whole(),
        }
    }
}

impl Entrance {
    fn reply(&mut self, method: Option<&str>, client: Client) -> Reply {
        if method != Some("GET") {
            return Reply::empty("405 Method Not Allowed").with("Allow", "GET");
        }
        if !is_of_this_user(client) {
            return Reply::empty("403 Forbidden");
        }
        match self.page.take() {
            Some(page) => Reply::empty("302 Found")
                .with("Location", page)
                .with("Cache-Control", "no-store")
                .with("Referrer-Policy", "no-referrer"),
            None => Reply::empty("410 Gone"),
        }
    }
}

/// Whether a client is a process of this user, or of root, which may do anything. The kernel has a list of connections with their
/// owners; a client that is on this machine is on it for as long as it waits for an answer.
#[cfg(target_os = "linux")]
fn is_of_this_user(client: Client) -> bool {
    let lists = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
    // Without the list, the entrance is closed after the first request all the same. A list that is there and cannot be read,
    // as for want of open files, lets nobody in: others can bring that about.
    let is_missing = |error: &io::Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied);
    if lists.iter().all(|list| list.as_ref().is_err_and(is_missing)) {
        return true;
    }
    let owner = lists.iter().flatten().find_map(|list| owner(list, client));
    owner.is_some_and(|user| user == 0 || user == rustix::process::geteuid().as_raw())
}

/// Other systems have no such list that is open to everybody: the entrance is closed after the first request.
#[cfg(not(target_os = "linux"))]
fn is_of_this_user(_client: Client) -> bool {
    true
}

/// The user of the client's socket, in a list as the kernel has it.
#[cfg(any(target_os = "linux", test))]
fn owner(list: &str, client: Client) -> Option<u32> {
    let ends = |list: &str, address: SocketAddr| {
        let (listed, port) = list.rsplit_once(':')?;
        let SocketAddr::V4(address) = address else { return None };
        // Words of the address, each as a number of this machine; IPv6 has this one behind 80 zero bits and 16 ones.
        let ip = format!("{:08X}", u32::from_ne_bytes(address.ip().octets()));
        let is_ip =
            listed == ip || listed == format!("0000000000000000{:08X}{ip}", u32::from_ne_bytes([0, 0, 0xff, 0xff]));
        (is_ip && u16::from_str_radix(port, 16) == Ok(address.port())).then_some(())
    };
    list.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, local, remote, _, _, _, _, user, _, inode, ..] = words.as_slice() else { return None };
        ends(local, client.from)?;
        ends(remote, client.to)?;
        // A socket without a process has lost its owner.
        if *inode == "0" { None } else { user.parse().ok() }
    })
}

/// What is true of the file, however much of it is sent. Nothing keeps it: the next trace has the same server and another name.
fn described(reply: Reply) -> Reply {
    reply
        .with("Content-Type", "application/octet-stream")
        .with("Accept-Ranges", "bytes")
        .with("Access-Control-Expose-Headers", "Accept-Ranges, Content-Range")
        .with("Cache-Control", "no-store")
        .with("X-Content-Type-Options", "nosniff")
}

/// The values of all fields of that name, in order.
fn values<'a>(request: &'a Request<'_, '_>, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    request.headers.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_connection_is_found_in_the_kernels_list() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
        let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let (ip, mapped) = (word([127, 0, 0, 1]), word([0, 0, 0xff, 0xff]));
        let row = |local: &str, remote: &str, user: u32, inode: u32| {
            format!("   1: {local} {remote} 01 00000000:00000000 00:00000000 00000000  {user}        0 {inode} 1 0\n")
        };
        let client =
            Client { from: "127.0.0.1:40000".parse().expect("valid"), to: "127.0.0.1:9001".parse().expect("valid") };
        let (from, to) = (format!("{ip}:9C40"), format!("{ip}:2329"));
        let server_side = row(&to, &from, 7, 5);
        let plain = [head, &server_side, &row(&from, &to, 1000, 6)].concat();
        assert_eq!(owner(&plain, client), Some(1000));
        let six = |address: &str| format!("0000000000000000{mapped}{address}");
        assert_eq!(owner(&[head, &row(&six(&from), &six(&to), 65534, 6)].concat(), client), Some(65534));
        assert_eq!(owner(&[head, &row(&from, &to, 0, 0)].concat(), client), None);
        assert_eq!(owner(&[head, &server_side].concat(), client), None);
        assert_eq!(owner("", client), None);
    }
}
