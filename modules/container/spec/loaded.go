package spec

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Loaded keeps the AppArmor profile of containers in the kernel: others may unload it, such as aa-remove-unknown and aa-teardown, and
// then no container that has it could start.
type Loaded struct {
	// Profile is its name; empty where containers get none.
	Profile string
	// Sys is where the machine's /sys is, and Load loads the profile.
	Sys  string
	Load func() error

	mu sync.Mutex
}

// KeepLoaded keeps the profile of a host, which LoadProfile has loaded.
func KeepLoaded(h Host) *Loaded {
	return &Loaded{Profile: h.Profile, Sys: "/sys", Load: load}
}

// KeepProfile loads the profile of a container that runs, where the kernel has it no more; nothing for a container without one.
func KeepProfile(profile string) error {
	_, err := KeepLoaded(Host{Profile: profile}).Ready()
	return err
}

// Ready returns the profile that a container gets which starts now, empty for none. It loads it again where the kernel
// doesn't have it.
func (l *Loaded) Ready() (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Profile == "" || l.there() {
		return l.Profile, nil
	}
	return l.Profile, l.Load()
}

// there reports whether the kernel lists the profile. A line of its list is such as "croft-container (enforce)".
func (l *Loaded) there() bool {
	list, err := os.ReadFile(filepath.Join(l.Sys, appArmorFolder, "profiles"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(list)) {
		if strings.HasPrefix(line, l.Profile+" (") {
			return true
		}
	}
	return false
}
