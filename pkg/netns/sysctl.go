package netns

import (
	"os"

	"github.com/croft-edge/croft/pkg/node"
)

// Sysctl sets one of the kernel's settings in the thread's namespace. A setting
// that this kernel doesn't have is left out.
func Sysctl(name, value string) error {
	err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o600)
	if err == nil || os.IsNotExist(err) {
		return nil
	}
	return node.Errorf(node.Internal, "cannot set %s to %s: %w", name, value, err)
}
