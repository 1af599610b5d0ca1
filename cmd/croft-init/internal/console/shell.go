package console

import (
	"os"
	"path/filepath"
	"strings"
)

// Shells are the paths of shells to try, after that of $SHELL.
func Shells() []string { return []string{"/bin/bash", "/bin/sh", "/bin/ash"} }

// FindShell returns the shell to start, empty when there is none.
func FindShell(wanted string) string {
	for _, path := range append([]string{wanted}, Shells()...) {
		if !filepath.IsAbs(path) {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// environment is a shell's environment: the container's own, and the terminal's type.
func environment(own []string, shell string) []string {
	set := []string{"TERM=xterm-256color", "COLORTERM=truecolor", "SHELL=" + shell}
	missing := map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"}
	var out []string
	for _, entry := range own {
		name, _, _ := strings.Cut(entry, "=")
		delete(missing, name)
		if name != "TERM" && name != "COLORTERM" && name != "SHELL" {
			out = append(out, entry)
		}
	}
	for name, value := range missing {
		out = append(out, name+"="+value)
	}
	return append(out, set...)
}
