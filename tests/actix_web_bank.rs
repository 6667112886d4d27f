//! The actix_web_bank example in a process of its own, spoken to over TCP: what it answers, and what is left of that when
//! it is stopped or killed at work.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

#[path = "common/child.rs"]
mod child;
#[path = "../examples/actix_web_bank.rs"]
mod server;

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);
const CENTS: u64 = 3;

/// The example as a program of its own; as a test of the parent it does nothing.
#[test]
fn the_server_of_the_other_tests() {
    if child::role().is_some() {
        let ended = format!("{:?}", server::main());
        assert_eq!(ended, format!("{:?}", std::process::ExitCode::SUCCESS));
    }
}

struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    fn start(data: &Path, max_waiting: usize) -> Self {
        let mut process = child::command("the_server_of_the_other_tests", "server")
            .env("BANK_DATA", data)
            .env("BANK_LISTEN", "127.0.0.1:0")
            .env("BANK_MAX_WAITING", max_waiting.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                let (_, rest) = line.split_once("listening on http://")?;
                rest.split(',').next()?.parse().ok()
            })
            .unwrap();
        // Read on, or the server would stand still at a full pipe.
        thread::spawn(move || lines.for_each(drop));
        Self { process, address }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([name, &self.process.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    }

    fn ended(mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "the server does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Response {
        ask(self.address, method, path, body).unwrap()
    }

    fn balance(&self, account: u32) -> u64 {
        let view = self.ask("GET", &format!("/accounts/{account}"), None);
        assert_eq!(view.status, 200, "{view:?}");
        view.number("balance")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended, or its test has failed.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[derive(Debug)]
struct Response {
    status: u16,
    head: String,
    body: Value,
}

impl Response {
    fn number(&self, key: &str) -> u64 {
        self.body.get(key).and_then(Value::as_u64).unwrap()
    }
}

/// # Errors
/// There is no whole answer.
fn ask(address: SocketAddr, method: &str, path: &str, body: Option<&Value>) -> io::Result<Response> {
    let mut stream = connect(address)?;
    let body = body.map(Value::to_string).unwrap_or_default();
    write!(stream, "{}{body}", head(method, path, body.len(), ""))?;
    read(stream)
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn head(method: &str, path: &str, length: usize, more: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: bank\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n{more}\r\n"
    )
}

fn read(mut stream: TcpStream) -> io::Result<Response> {
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Ok(Response {
        status,
        head: head.to_lowercase(),
        body: serde_json::from_str(body).unwrap_or(Value::Null),
    })
}

fn deposit(client: u32, number: u64, cents: u64) -> Value {
    json!({ "by": { "client": client, "number": number }, "cents": cents })
}

/// A client that deposits, one command after the other, into the account of its number, until it gets no answer. Returns
/// the number of the command that was not answered.
fn deposit_until_there_is_no_answer(address: SocketAddr, client: u32, acknowledged: &AtomicU64) -> u64 {
    let path = format!("/accounts/{client}/deposits");
    for number in 1.. {
        match ask(address, "POST", &path, Some(&deposit(client, number, CENTS))) {
            Ok(answer) => {
                assert_eq!(answer.status, 200, "{answer:?}");
                assert_eq!(answer.number("balance"), number * CENTS);
                acknowledged.fetch_add(1, Ordering::SeqCst);
            }
            Err(_) => return number,
        }
    }
    unreachable!()
}

const CLIENTS: u32 = 8;

/// Clients at work while `end` ends the server; then it starts again, and nothing that was acknowledged is missing.
fn nothing_is_missing_after(end: impl FnOnce(Server) -> ExitStatus) -> ExitStatus {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), 256);
    for account in 0..CLIENTS {
        assert_eq!(
            server.ask("PUT", &format!("/accounts/{account}"), None).status,
            201
        );
    }
    let acknowledged = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (address, acknowledged) = (server.address, acknowledged.clone());
            thread::spawn(move || deposit_until_there_is_no_answer(address, client, &acknowledged))
        })
        .collect();
    let started = Instant::now();
    while acknowledged.load(Ordering::SeqCst) < 200 {
        assert!(
            started.elapsed() < PATIENCE,
            "{acknowledged:?} deposits in {PATIENCE:?}"
        );
        thread::sleep(Duration::from_millis(1));
    }
    let status = end(server);
    let unanswered: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();

    let server = Server::start(folder.path(), 256);
    for (account, number) in (0..).zip(unanswered) {
        // The last one may have been done or not, the earlier ones were acknowledged.
        let found = server.balance(account);
        let told = (number - 1) * CENTS;
        assert!(
            found == told || found == told + CENTS,
            "account {account}: {found}, acknowledged {told}"
        );
        let again = deposit(account, number, CENTS);
        let answer = server.ask("POST", &format!("/accounts/{account}/deposits"), Some(&again));
        assert_eq!((answer.status, answer.number("balance")), (200, told + CENTS));
    }
    server.signal("-INT");
    assert!(server.ended().success());
    status
}

#[test]
fn a_terminated_server_ends_well_and_nothing_acknowledged_is_missing() {
    let status = nothing_is_missing_after(|server| {
        server.signal("-TERM");
        server.ended()
    });
    assert!(status.success(), "{status}");
}

#[test]
fn nothing_acknowledged_is_missing_after_a_kill() {
    nothing_is_missing_after(|server| {
        server.signal("-KILL");
        server.ended()
    });
}

#[test]
fn a_request_that_has_begun_is_answered_by_a_server_that_stops() {
    for signal in ["-TERM", "-INT"] {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path(), 256);
        server.ask("PUT", "/accounts/1", None);

        // It is in its handler: the server asks for the body.
        let body = deposit(1, 1, CENTS).to_string();
        let mut begun = connect(server.address).unwrap();
        let expect = "Expect: 100-continue\r\n";
        write!(
            begun,
            "{}",
            head("POST", "/accounts/1/deposits", body.len(), expect)
        )
        .unwrap();
        let mut go_on = [0; 25];
        begun.read_exact(&mut go_on).unwrap();
        assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");

        server.signal(signal);
        let started = Instant::now();
        while TcpStream::connect(server.address).is_ok() {
            assert!(
                started.elapsed() < PATIENCE,
                "it still takes connections after {signal}"
            );
            thread::sleep(Duration::from_millis(1));
        }
        write!(begun, "{body}").unwrap();
        let answer = read(begun).unwrap();
        assert_eq!((answer.status, answer.number("balance")), (200, CENTS));
        assert!(server.ended().success());

        let server = Server::start(folder.path(), 256);
        assert_eq!(server.balance(1), CENTS);
    }
}

#[test]
fn an_overloaded_account_is_a_503_and_what_is_sent_again_is_done_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), 1);
    server.ask("PUT", "/accounts/1", None);
    let overloaded = Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (address, overloaded) = (server.address, overloaded.clone());
            thread::spawn(move || {
                let mut done = 0;
                while !overloaded.load(Ordering::SeqCst) {
                    assert!(started.elapsed() < PATIENCE, "no overload in {PATIENCE:?}");
                    let next = deposit(client, done + 1, CENTS);
                    loop {
                        let answer = ask(address, "POST", "/accounts/1/deposits", Some(&next)).unwrap();
                        if answer.status == 200 {
                            break;
                        }
                        assert_eq!(answer.status, 503, "{answer:?}");
                        assert!(answer.head.contains("\r\nretry-after: 1"), "{answer:?}");
                        overloaded.store(true, Ordering::SeqCst);
                    }
                    done += 1;
                }
                done
            })
        })
        .collect();
    let done: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
    assert_eq!(server.balance(1), done * CENTS);
}

#[test]
fn a_transfer_arrives_and_refusals_have_their_own_answers() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), 256);
    let post = |path: &str, body: Value| server.ask("POST", path, Some(&body));
    assert_eq!(server.ask("PUT", "/accounts/1", None).status, 201);
    assert_eq!(server.ask("PUT", "/accounts/2", None).status, 201);
    assert_eq!(post("/accounts/1/deposits", deposit(1, 1, 100)).status, 200);
    let opened_again = server.ask("PUT", "/accounts/1", None);
    assert_eq!((opened_again.status, opened_again.number("balance")), (200, 100));

    let to = |number: u64, to: u32, cents: u64| json!({ "by": { "client": 1, "number": number }, "to": to, "cents": cents });
    let sent = post("/accounts/1/transfers", to(2, 2, 40));
    assert_eq!((sent.status, sent.number("balance")), (200, 60));
    let started = Instant::now();
    while server.balance(2) != 40
        || server
            .ask("GET", "/accounts/1", None)
            .number("transfers_under_way")
            > 0
    {
        assert!(started.elapsed() < PATIENCE, "the transfer does not arrive");
    }
    assert_eq!(
        post("/accounts/1/withdrawals", deposit(1, 3, 10)).number("balance"),
        50
    );

    for (status, path, body) in [
        (409, "/accounts/1/withdrawals", deposit(1, 4, 51)),
        (409, "/accounts/1/transfers", to(4, 2, 51)),
        (422, "/accounts/1/transfers", to(4, 1, 1)),
        (422, "/accounts/1/deposits", deposit(1, 4, 0)),
        (422, "/accounts/1/deposits", deposit(1, 4, u64::MAX)),
        (404, "/accounts/3/deposits", deposit(1, 4, 1)),
        (404, "/accounts/1/transfers", to(4, 3, 1)),
        (400, "/accounts/1/deposits", json!({ "cents": 1 })),
    ] {
        let refused = post(path, body.clone());
        assert_eq!(refused.status, status, "{path} {body}: {refused:?}");
        assert!(!refused.head.contains("retry-after"), "{refused:?}");
    }
    assert_eq!(server.balance(1), 50);
}
