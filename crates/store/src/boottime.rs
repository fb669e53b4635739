//! Time that also goes on while the host is suspended: `CLOCK_BOOTTIME`.
//!
//! A lease ends in the store while this host sleeps, and the clock that timers of the runtime use stands still meanwhile.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// The time since the host was started.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Waits until so much time has passed since the host was started. It is over at once when the host wakes up after that moment.
pub(crate) async fn reached(time: Duration) {
    match Alarm::new(time) {
        Ok(alarm) => {
            // An error of the timer is taken for its end: whoever waits looks at the clock again.
            let _ = alarm.0.readable().await;
        }
        Err(error) => {
            tracing::debug!("no timer that goes on while the host is suspended: {error}");
            std::future::pending::<()>().await;
        }
    }
}

struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    #[expect(
        deprecated,
        reason = "the new way is unsafe for types that lie about their descriptor; this one owns it"
    )]
    fn new(time: Duration) -> std::io::Result<Alarm> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        // A value of zero would stop the timer.
        let time = time.max(Duration::from_nanos(1));
        let value = Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        let interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let alarm = Itimerspec { it_interval: interval, it_value: value };
        timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &alarm)?;
        Ok(Alarm(AsyncFd::new(timer)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_moment_is_reached_and_not_before() {
        let begin = now();
        let moment = begin + Duration::from_millis(50);
        reached(moment).await;
        assert!(now() >= moment);
        reached(begin).await;
        reached(Duration::ZERO).await;
    }
}
