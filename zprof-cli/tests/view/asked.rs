//! Whole replies to every kind of request.

use super::served::{PAGE, Served, body};

const CONTENT: &[u8] = b"0123456789";
/// What every reply about the file says.
const DESCRIPTION: &str = "Content-Type: application/octet-stream\r\nAccept-Ranges: bytes\r\n\
     Access-Control-Expose-Headers: Accept-Ranges, Content-Range\r\nCache-Control: no-store\r\n\
     X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n";
const ALLOWED: &str = "Access-Control-Allow-Origin: https://ui.perfetto.dev\r\n";
const FROM_PAGE: &str = "Origin: https://ui.perfetto.dev\r\n";
const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const FORBIDDEN: &str = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const BAD: &str = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

fn whole(cors: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{cors}Content-Length: 10\r\n{DESCRIPTION}0123456789")
}

#[test]
fn the_page_gets_the_whole_trace() {
    let served = Served::holding(CONTENT);
    assert_eq!(served.ask("GET", &served.path, FROM_PAGE), whole(ALLOWED));
    let head = served.ask("HEAD", &served.path, FROM_PAGE);
    assert_eq!(head, whole(ALLOWED).strip_suffix("0123456789").expect("the body is last"));
    // A range is for GET alone.
    assert_eq!(served.ask("HEAD", &served.path, &format!("{FROM_PAGE}Range: bytes=0-1\r\n")), head);
    // No page asks here: a program, or a person.
    assert_eq!(served.ask("GET", &served.path, ""), whole(""));
    assert_eq!(served.ask("GET", &served.path, "sec-fetch-site: cross-site\r\n"), whole(""));
}

#[test]
fn names_of_fields_and_the_name_of_the_machine_are_free() {
    let served = Served::holding(CONTENT);
    let (port, path) = (served.port, &served.path);
    for request in [
        format!("GET {path} HTTP/1.1\r\nhOST: localhost:{port}\r\noRIGIN: {PAGE}\r\n\r\n"),
        format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nOrigin: {PAGE}\r\n\r\n"),
        format!("GET {path} HTTP/1.1\nHost: 127.0.0.1:{port}\nOrigin: {PAGE}\n\n"),
    ] {
        let reply = String::from_utf8(served.exchange(&request)).expect("is text");
        assert_eq!(reply, whole(ALLOWED), "{request}");
    }
}

#[test]
fn one_range_is_a_part_of_the_trace() {
    let served = Served::holding(CONTENT);
    let part = |start: usize, end: usize| {
        let (text, length) = (&"0123456789"[start..=end], end + 1 - start);
        format!(
            "HTTP/1.1 206 Partial Content\r\n{ALLOWED}Content-Length: {length}\r\nContent-Range: bytes {start}-{end}/10\r\n\
             {DESCRIPTION}{text}"
        )
    };
    let beyond = format!(
        "HTTP/1.1 416 Range Not Satisfiable\r\n{ALLOWED}Content-Range: bytes */10\r\n{}",
        DESCRIPTION.replace("Connection", "Content-Length: 0\r\nConnection")
    );
    for (fields, reply) in [
        ("Range: bytes=0-0", part(0, 0)),
        ("Range: bytes=3-5", part(3, 5)),
        ("Range: bytes=3-", part(3, 9)),
        ("Range: bytes=-3", part(7, 9)),
        ("Range: bytes=-99", part(0, 9)),
        ("Range: bytes=8-99", part(8, 9)),
        ("Range: bytes=8-99999999999999999999", part(8, 9)),
        ("Range: bytes=10-", beyond.clone()),
        ("Range: bytes=99-100", beyond.clone()),
        ("Range: bytes=-0", beyond),
        // What is not understood, or is too much, is the whole.
        ("Range: bytes=0-1,3-4", whole(ALLOWED)),
        ("Range: bytes=5-3", whole(ALLOWED)),
        ("Range: bytes=a-b", whole(ALLOWED)),
        ("Range: bytes=", whole(ALLOWED)),
        ("Range: lines=0-1", whole(ALLOWED)),
        ("Range: bytes=\u{e9}", whole(ALLOWED)),
        ("Range: bytes=0-1\r\nRange: bytes=2-3", whole(ALLOWED)),
        ("Range: bytes=0-1\r\nIf-Range: \"x\"", whole(ALLOWED)),
    ] {
        assert_eq!(served.ask("GET", &served.path, &format!("{FROM_PAGE}{fields}\r\n")), reply, "{fields}");
    }
}

#[test]
fn an_empty_trace_has_no_range() {
    let served = Served::holding(b"");
    let empty = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{DESCRIPTION}");
    assert_eq!(served.ask("GET", &served.path, ""), empty);
    assert_eq!(served.ask("GET", &served.path, "Range: bytes=-1\r\n"), empty);
    let none = served.ask("GET", &served.path, "Range: bytes=0-\r\n");
    assert!(none.starts_with("HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */0\r\n"), "{none}");
}

#[test]
fn ranges_of_a_large_trace_are_its_bytes() {
    let content: Vec<u8> = (0..1_000_003_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let served = Served::holding(&content);
    assert!(served.fetch() == content);
    for (start, end) in [(0, 65_535), (65_535, 65_536), (1, 1_000_002), (999_999, 1_000_002)] {
        let range = format!("Range: bytes={start}-{end}\r\n");
        let reply = served.exchange(&served.request("GET", &served.path, &range));
        assert!(reply.starts_with(b"HTTP/1.1 206 "), "{range}");
        assert!(body(&reply) == &content[start..=end], "{range}");
    }
}

#[test]
fn a_preflight_learns_what_the_page_may_ask() {
    let served = Served::holding(CONTENT);
    let asks = format!("{FROM_PAGE}Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: range\r\n");
    let may = format!(
        "HTTP/1.1 204 No Content\r\n{ALLOWED}Access-Control-Allow-Methods: GET, HEAD\r\nAccess-Control-Allow-Headers: Range\r\n"
    );
    assert_eq!(served.ask("OPTIONS", &served.path, &asks), format!("{may}Connection: close\r\n\r\n"));
    // Private network access: a page of the internet asks for this machine.
    let private = format!("{asks}Access-Control-Request-Private-Network: true\r\n");
    assert_eq!(
        served.ask("OPTIONS", &served.path, &private),
        format!("{may}Access-Control-Allow-Private-Network: true\r\nConnection: close\r\n\r\n")
    );
    let stranger = private.replace(PAGE, "https://evil.example");
    assert_eq!(served.ask("OPTIONS", &served.path, &stranger), FORBIDDEN);
    assert_eq!(
        served.ask("OPTIONS", &served.path, ""),
        "HTTP/1.1 204 No Content\r\nAllow: GET, HEAD, OPTIONS\r\nConnection: close\r\n\r\n"
    );
}

#[test]
fn other_methods_are_refused() {
    let served = Served::holding(CONTENT);
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "get", "X"] {
        assert_eq!(
            served.ask(method, &served.path, FROM_PAGE),
            format!(
                "HTTP/1.1 405 Method Not Allowed\r\n{ALLOWED}Allow: GET, HEAD, OPTIONS\r\nContent-Length: 0\r\n\
                 Connection: close\r\n\r\n"
            ),
            "{method}"
        );
    }
}

#[test]
fn perfetto_learns_that_this_is_no_trace_processor() {
    let served = Served::holding(CONTENT);
    // It asks before it fetches, and must have an answer at once; the body is not read.
    let reply = served.ask("POST", "/status", &format!("{FROM_PAGE}Content-Length: 5\r\n\r\nhello"));
    assert_eq!(reply, NOT_FOUND.replace("Content-Length", &format!("{ALLOWED}Content-Length")));
}

#[test]
fn nothing_but_the_trace_has_an_address() {
    let served = Served::holding(CONTENT);
    let path = &served.path;
    let (folder, name) = path[1..].split_once('/').expect("a token and a name");
    assert_eq!(name, "t.pftrace");
    assert_eq!(folder.len(), 32);
    let mut changed = folder.to_owned();
    changed.replace_range(31.., if folder.ends_with('0') { "1" } else { "0" });
    for other in [
        "/".to_owned(),
        "*".to_owned(),
        format!("/{name}"),
        format!("/{folder}"),
        format!("/{folder}/"),
        format!("/{folder}/t"),
        format!("/{changed}/{name}"),
        format!("/{}/{name}", folder.to_uppercase()),
        format!("{path}/"),
        format!("{path}?"),
        format!("{path}?x=1"),
        format!("{path}#x"),
        format!("/{path}"),
        format!("/.{path}"),
        format!("/x/..{path}"),
        format!("/{folder}/./{name}"),
        format!("/{folder}/%74.pftrace"),
        format!("/{folder}/../{folder}/{name}"),
        format!("/{folder}/../../../../../../../../etc/passwd"),
        format!("/{folder}/..%2f..%2f..%2f..%2fetc%2fpasswd"),
        "/etc/passwd".to_owned(),
        "/../../../../../../etc/passwd".to_owned(),
        "file:///etc/passwd".to_owned(),
        "/proc/self/environ".to_owned(),
        format!("http://127.0.0.1:{}{path}", served.port),
    ] {
        // A letter digit of the token might be missing; then its upper case is the path itself.
        if other != *path {
            assert_eq!(served.ask("GET", &other, ""), NOT_FOUND, "{other}");
        }
    }
    // The same trace again is at another address.
    assert_ne!(Served::holding(CONTENT).path, *path);
}

#[test]
fn other_pages_and_foreign_names_of_this_machine_are_refused() {
    let served = Served::holding(CONTENT);
    let own = format!("http://127.0.0.1:{}", served.port);
    for origin in [
        "https://evil.example",
        "http://ui.perfetto.dev",
        "https://ui.perfetto.dev:444",
        "https://ui.perfetto.dev.evil.example",
        "https://UI.perfetto.dev",
        "https://ui.perfetto.dev, https://evil.example",
        "https://ui.perfetto.dev\r\nOrigin: https://evil.example",
        "null",
        "",
        &own,
    ] {
        for method in ["GET", "HEAD", "OPTIONS", "POST"] {
            let reply = served.ask(method, &served.path, &format!("Origin: {origin}\r\n"));
            assert_eq!(reply, FORBIDDEN, "{method} {origin}");
        }
    }
    let (port, path) = (served.port, &served.path);
    for (hosts, reply) in [
        ("Host: evil.example\r\n".to_owned(), FORBIDDEN),
        (format!("Host: evil.example:{port}\r\n"), FORBIDDEN),
        ("Host: 127.0.0.1\r\n".to_owned(), FORBIDDEN),
        ("Host: 127.0.0.1:1\r\n".to_owned(), FORBIDDEN),
        (format!("Host: 0.0.0.0:{port}\r\n"), FORBIDDEN),
        (format!("Host: [::1]:{port}\r\n"), FORBIDDEN),
        (format!("Host: localhost.evil.example:{port}\r\n"), FORBIDDEN),
        (String::new(), BAD),
        (format!("Host: 127.0.0.1:{port}\r\nHost: evil.example\r\n"), BAD),
    ] {
        let got = served.exchange(&format!("GET {path} HTTP/1.1\r\n{hosts}{FROM_PAGE}\r\n"));
        assert_eq!(String::from_utf8_lossy(&got), reply, "{hosts}");
    }
}

#[test]
fn what_is_not_http_is_refused() {
    let served = Served::holding(CONTENT);
    for request in
        ["hello\r\n\r\n", "\0\0\0\0", "GET\r\n\r\n", "GET / HTTP/9\r\n\r\n", "GET / HTTP/1.1\r\n bad\r\n\r\n"]
    {
        assert_eq!(String::from_utf8_lossy(&served.exchange(request)), BAD, "{request:?}");
    }
    let long = "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!(served.ask("GET", &served.path, &format!("X: {}\r\n", "x".repeat(17_000))), long);
    assert_eq!(served.ask("GET", &served.path, &"X: x\r\n".repeat(200)), long);
}
