//! A message bus of a test's own.

use std::path::Path;
use std::process::{Child, Command};

use crate::program::eventually;

/// The bus. It ends with this.
pub struct Bus(Child);

impl Bus {
    /// Where the bus of a directory is, whether it runs or not.
    pub fn address(directory: &Path) -> String {
        format!("unix:path={}", directory.join("bus").display())
    }

    /// Starts a message bus whose socket is in this directory, and waits until it accepts connections.
    pub fn start(directory: &Path) -> Bus {
        let (address, socket) = (Bus::address(directory), directory.join("bus"));
        // One that was there before may have left it.
        let _ = std::fs::remove_file(&socket);
        let configuration = directory.join("bus.conf");
        let text = format!(
            "<busconfig><listen>{address}</listen><auth>EXTERNAL</auth><policy context=\"default\">\
             <allow own=\"*\"/><allow send_destination=\"*\"/><allow receive_sender=\"*\"/></policy></busconfig>"
        );
        std::fs::write(&configuration, text).unwrap();
        let daemon = Command::new("dbus-daemon")
            .arg("--nofork")
            .arg(format!("--config-file={}", configuration.display()))
            .spawn()
            .unwrap_or_else(|error| panic!("this test needs dbus-daemon: {error}"));
        eventually("the bus is there", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
        Bus(daemon)
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
