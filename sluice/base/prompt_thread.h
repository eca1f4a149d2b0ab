// Threads that do little and are waited for: those of messages between processes.
#pragma once

namespace sluice {

/// Asks the system to run the calling thread as soon as it is woken, before threads that compute,
/// and to wake it from naps in time. It is a request: nothing depends on it but time.
void becomePrompt();

}  // namespace sluice
