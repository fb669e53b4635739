//! Event hubs: files, timers, processes
