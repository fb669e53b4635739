//! The wall clock, which people and other machines set.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::kernel::waiting;

/// How the kernel says that the clock was set.
const WAS_SET: Errno = Errno::CANCELED;

/// Waits for times of the wall clock. A machine that slept through one is told when it wakes, and so is one whose clock was
/// set; a timer that counts seconds would be late.
#[derive(Debug)]
pub struct WallClock(AsyncFd<OwnedFd>);

impl WallClock {
    /// To be made in a runtime.
    pub fn new() -> io::Result<WallClock> {
        let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        Ok(WallClock(waiting(timer, Interest::READABLE)?))
    }

    /// Waits until the clock shows this time or later, or has been set. A call that is dropped leaves nothing behind.
    pub async fn reaches(&mut self, time: SystemTime) -> io::Result<()> {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        // A time of zero would switch the timer off.
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX).max(1);
        let at = Timespec { tv_sec: seconds, tv_nsec: since.subsec_nanos().into() };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        match timerfd_settime(&self.0, flags, &Itimerspec { it_interval: never, it_value: at }) {
            Ok(_) => {}
            Err(WAS_SET) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        loop {
            let mut ready = self.0.readable().await?;
            let read = ready.try_io(|timer| {
                let mut count = [0; 8];
                rustix::io::read(timer, &mut count[..]).map(drop).map_err(io::Error::from)
            });
            match read {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) if Errno::from_io_error(&error) == Some(WAS_SET) => return Ok(()),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn wait(times: &[SystemTime]) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut clock = WallClock::new().unwrap();
            for time in times {
                tokio::time::timeout(Duration::from_secs(10), clock.reaches(*time)).await.unwrap().unwrap();
            }
        });
    }

    #[test]
    fn a_time_that_comes_is_waited_for_and_one_that_is_over_is_not() {
        let soon = SystemTime::now() + Duration::from_millis(200);
        wait(&[UNIX_EPOCH, soon]);
        assert!(SystemTime::now() >= soon);
        wait(&[UNIX_EPOCH - Duration::from_secs(1), SystemTime::now()]);
    }

    #[test]
    fn a_time_that_does_not_come_is_waited_for_in_vain() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut clock = WallClock::new().unwrap();
            let late = SystemTime::now() + Duration::from_secs(1_000_000);
            // What the first wait has left behind does not end the second.
            assert!(tokio::time::timeout(Duration::from_millis(10), clock.reaches(late)).await.is_err());
            let soon = SystemTime::now() + Duration::from_millis(100);
            tokio::time::timeout(Duration::from_secs(10), clock.reaches(soon)).await.unwrap().unwrap();
            assert!(SystemTime::now() >= soon);
        });
    }
}
