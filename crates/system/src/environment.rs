//! Sets environment variables that a library reads when it is loaded.

use std::io;

/// Sets a variable of this process, which its children inherit.
///
/// # Errors
/// When another thread exists, which could read the environment at the same time.
pub fn set_variable_before_threads(name: &str, value: &str) -> io::Result<()> {
    if std::env::vars_os().any(|it| it.0 == name && it.1 == value) {
        return Ok(());
    }
    if count_threads()? != 1 {
        return Err(io::Error::other(format!("{name} must be set before the first thread is started")));
    }
    // SAFETY: this is the only thread, so that no other one reads the environment meanwhile.
    unsafe { std::env::set_var(name, value) };
    Ok(())
}

#[cfg(target_os = "linux")]
fn count_threads() -> io::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

/// Returns 1, because other systems have no cheap count of threads: callers have to call early enough.
#[cfg(not(target_os = "linux"))]
fn count_threads() -> io::Result<usize> {
    Ok(1)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn second_thread_prevents_setting_variable() {
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || wait.recv().ok());
        let error = set_variable_before_threads("VIC_TEST_VARIABLE", "1").unwrap_err();
        assert!(error.to_string().contains("VIC_TEST_VARIABLE"), "{error}");
        assert_eq!(std::env::vars_os().find(|it| it.0 == "VIC_TEST_VARIABLE"), None);
        drop(end);
        thread.join().unwrap();
    }
}
