//! The command of a captive cluster.

use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::captive::{CaptiveError, Cluster};
use crate::signals::{self, Signals, with_parent};

/// Runs `sh -c text` with the cluster's variables; its exit status, or 128 and the signal that ended it.
pub(super) fn command(
    text: &str,
    cluster: &Cluster,
    json: bool,
    signals: &Signals,
) -> Result<u8, CaptiveError> {
    let spawn = |source| CaptiveError::Spawn { what: "sh".into(), source };
    let mut command = Command::new("sh");
    command.args(["-c", text]).envs(variables(cluster));
    if json {
        // Standard output has the JSON object only.
        command.stdout(Stdio::from(std::io::stderr().as_fd().try_clone_to_owned().map_err(spawn)?));
    }
    let mut child = with_parent(&mut command, libc::SIGTERM).spawn().map_err(spawn)?;
    loop {
        let status =
            child.try_wait().map_err(|source| CaptiveError::Wait { what: "the command".into(), source })?;
        if let Some(status) = status {
            return Ok(exit_code(status));
        }
        // The terminal's Ctrl-C reaches the command by itself.
        if let Some(signal) = signals.wait(Duration::from_secs(1))
            && signal.ends()
            && signal.from_process
        {
            signals::send(child.id(), signal.number);
        }
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(u8::MAX)
}

fn variables(cluster: &Cluster) -> Vec<(String, String)> {
    let mut variables = vec![
        ("uri".into(), cluster.uri(0)),
        ("nbd".into(), format!("nbd:unix:{}:exportname=disk", cluster.socket(0).display())),
        ("CARDS_DIR".into(), cluster.dir().display().to_string()),
        ("CARDS_NODES".into(), cluster.nodes.len().to_string()),
    ];
    for i in 0..cluster.nodes.len() {
        variables.push((format!("uri{}", i + 1), cluster.uri(i)));
        variables.push((format!("pid{}", i + 1), cluster.nodes[i].pid().to_string()));
        if let Some(uri) = cluster.tcp_uri(i) {
            variables.push((format!("tcp{}", i + 1), uri));
        }
        if let Some(dashboard) = cluster.dashboard(i) {
            variables.push((format!("web{}", i + 1), dashboard));
        }
    }
    variables
}

/// The same for people.
pub(super) fn uris(cluster: &Cluster) -> String {
    let mut text = String::new();
    for (i, node) in cluster.nodes.iter().enumerate() {
        text += &format!("{}  {}\n", node.config.node, cluster.uri(i));
        if let Some(uri) = cluster.tcp_uri(i) {
            text += &format!("    {uri}\n");
        }
        if let Some(dashboard) = cluster.dashboard(i) {
            text += &format!("    {dashboard}\n");
        }
    }
    text += &mirror(cluster);
    text + &format!("The cluster is up, its files are in {}. Ctrl-C ends it.\n", cluster.dir().display())
}

/// Where the copies are, if the volume has any, and which processes can be killed.
fn mirror(cluster: &Cluster) -> String {
    let Ok(Some(volume)) = cluster.volume(0) else { return String::new() };
    if let Some(striped) = volume.striped {
        let pids: Vec<String> =
            cluster.nodes.iter().map(|node| format!("{} is {}", node.config.node, node.pid())).collect();
        let survives = match striped.has_copies() {
            true => "Kill any node with -9, and I/O goes on",
            false => "What is on the disk of a node that is killed waits until it is back",
        };
        let (layout, parts) = (striped.layout, striped.parts.len());
        return format!(
            "The volume is {layout}, in {parts} parts at all nodes. {survives}: {}.\n",
            pids.join(", ")
        );
    }
    let Some(mirror) = volume.mirror else { return String::new() };
    let copies: Vec<String> =
        mirror.copies.iter().map(|copy| format!("{}:{}", copy.node, copy.disk)).collect();
    let primary = mirror.map.map(|map| format!("; {} orders its writes", map.primary)).unwrap_or_default();
    let pids: Vec<String> =
        cluster.nodes.iter().map(|node| format!("{} is {}", node.config.node, node.pid())).collect();
    format!(
        "The volume is {}, with copies at {}{primary}. Kill any node with -9, and I/O goes on: {}.\n",
        mirror.layout,
        copies.join(", "),
        pids.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_status_is_the_commands() {
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(exit_code(ExitStatus::from_raw(libc::SIGKILL)), 137);
        assert_eq!(exit_code(ExitStatus::from_raw(0)), 0);
    }
}
