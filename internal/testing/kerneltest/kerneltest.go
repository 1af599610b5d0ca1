// Package kerneltest tells tests which kernel they run on.
package kerneltest

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// AtLeast reports whether the kernel is of that version or a later one.
func AtLeast(t testing.TB, major, minor int) bool {
	t.Helper()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	release := unix.ByteSliceToString(name.Release[:])
	var isMajor, isMinor int
	if _, err := fmt.Sscanf(release, "%d.%d", &isMajor, &isMinor); err != nil {
		t.Fatalf("the kernel's release is %q: %v", release, err)
	}
	return isMajor > major || isMajor == major && isMinor >= minor
}
