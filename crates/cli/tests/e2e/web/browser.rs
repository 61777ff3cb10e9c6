//! A browser without a window, driven over its debugging pipe: JSON messages, each ended by a zero byte, on its file
//! descriptors 3 and 4 (Chrome DevTools Protocol).

use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{LONG, SHORT, eventually};

/// The program, as Debian calls it.
pub(super) const CHROMIUM: &str = "chromium";

/// A browser with one page; gone with the value.
pub(super) struct Browser {
    child: Child,
    to: PipeWriter,
    from: Receiver<Value>,
    session: Option<String>,
    calls: u64,
    /// What the page has said by itself, in order.
    events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// Starts it with an empty profile and an empty page.
    pub(super) fn start() -> Browser {
        Browser::start_in(tempfile::Builder::new().prefix("cards-browser-").tempdir().expect("a directory"))
    }

    /// The same with this profile, which is its home as well.
    pub(super) fn start_in(profile: TempDir) -> Browser {
        let (theirs_in, to) = io::pipe().expect("a pipe");
        let (from, theirs_out) = io::pipe().expect("a pipe");
        let child = spawn(profile.path(), &theirs_in, &theirs_out);
        drop((theirs_in, theirs_out));
        let (heard, messages) = mpsc::channel();
        thread::spawn(move || {
            for message in BufReader::new(from).split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("the browser speaks JSON");
                if heard.send(message).is_err() {
                    return;
                }
            }
        });
        let (session, events, calls) = (None, Vec::new(), 0);
        let mut browser = Browser { child, to, from: messages, session, calls, events, _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().map(String::from);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method of the protocol.
    #[track_caller]
    pub(super) fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let mut bytes = serde_json::to_vec(&message).expect("JSON");
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser lives");
        loop {
            let mut answer = self.from.recv_timeout(LONG).unwrap_or_else(|e| panic!("{method}: {e}"));
            if answer["id"] == self.calls {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].take();
            }
            self.events.push(answer);
        }
    }

    /// Goes to an address, and waits for the end of its first look.
    pub(super) fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
        self.until("the page lives", "globalThis.cards?.model.cluster !== null && !!globalThis.cards");
    }

    /// The value of an expression in the page; a promise is waited for.
    #[track_caller]
    pub(super) fn js(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].take()
    }

    /// The same, as a text.
    #[track_caller]
    pub(super) fn text(&mut self, expression: &str) -> String {
        let value = self.js(expression);
        value.as_str().unwrap_or_else(|| panic!("{expression} is {value}")).to_owned()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub(super) fn until(&mut self, what: &str, expression: &str) {
        let mut told = Value::Null;
        let mut look = || {
            // What it looks at may not be there yet.
            told = self
                .js(&format!("Promise.resolve().then(() => {expression}).catch((error) => String(error))"));
            (told == true).then_some(())
        };
        eventually(&format!("{what} ({expression})"), SHORT, &mut look);
    }

    /// Presses a key: `Tab`, `Enter`, `ArrowLeft` ...
    pub(super) fn key(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            other => panic!("no such key here: {other}"),
        };
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let params = json!({ "type": kind, "key": key, "code": key, "text": if kind == "keyDown" { text } else { "" },
                "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", params);
        }
    }

    /// Has the page believe in a screen of this width, and in what its reader prefers.
    pub(super) fn screen(&mut self, width: u32, scheme: &str, motion: &str) {
        let phone = width < 500;
        let metrics = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": phone });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": motion }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Addresses that the page has asked for, in order.
    pub(super) fn asked(&mut self) -> Vec<String> {
        // Its answer comes behind all events there are.
        self.js("0");
        let sent = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.filter_map(|event| event["params"]["request"]["url"].as_str().map(String::from)).collect()
    }

    /// What went wrong in the page, as its console has it.
    pub(super) fn complaints(&mut self) -> Vec<String> {
        self.js("0");
        let bad = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Log.entryAdded") => event["params"]["entry"]["level"] == "error",
            Some("Runtime.consoleAPICalled") => event["params"]["type"] != "log",
            _ => false,
        };
        self.events.iter().filter(bad).map(|event| event["params"].to_string()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It has a group of its own, with all its helpers.
        if let Ok(group) = i32::try_from(self.child.id()) {
            // SAFETY: kill takes plain numbers; the group is that of a child not yet waited for.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
        let _ = self.child.wait();
    }
}

fn spawn(profile: &Path, input: &PipeReader, output: &PipeWriter) -> Child {
    let mut command = Command::new(CHROMIUM);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
    command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    command.args(["--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"]);
    command.arg(format!("--user-data-dir={}", profile.display())).env("HOME", profile);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let (input, output) = (input.as_raw_fd(), output.as_raw_fd());
    // SAFETY: these calls are async-signal-safe, and the closure touches nothing of the parent. The descriptors are
    // open here until the child has them. Both go out of the way of 3 and 4 first.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            let away = |fd| libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 100);
            let (input, output) = (away(input), away(output));
            if libc::dup2(input, 3) < 0 || libc::dup2(output, 4) < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
    command.spawn().expect("chromium is installed")
}
