package tasks

import (
	"strings"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/pkg/node"
)

// Texts of runc about the image rather than about the machine.
var (
	imageFaults = []string{
		"unable to start container process: exec:", "executable file not found", "no such file or directory", "permission denied",
		"exec format error", "not a directory", "unable to find user", "oom-killed", "container init was", "mkdir /proc/self/cwd", "chdir to cwd",
	}
	causeStarts = []string{"unable to start container process: ", "runc create failed: ", "OCI runtime start failed: ", "OCI runtime create failed: "}
)

// StartError is Invalid when a failed start is the image's fault, else mostly Transient. Only
// runc's text tells them apart.
func StartError(err error, id string) error {
	kind := containerd.Kind(err)
	if err == nil || kind == node.Transient {
		return containerd.Error(err, "start container %s", id)
	}
	text := err.Error()
	if !strings.Contains(text, "OCI runtime") {
		return containerd.Error(err, "start container %s", id)
	}
	kind = node.Transient
	if strings.Contains(text, "unable to retrieve OCI runtime error") { // runc itself couldn't be started
		return node.Errorf(kind, "cannot start container %s: %s", id, text)
	}
	for _, fault := range imageFaults {
		if strings.Contains(strings.ToLower(text), fault) {
			kind = node.Invalid
		}
	}
	for _, start := range causeStarts {
		if _, cause, ok := strings.Cut(text, start); ok {
			text = cause
			break
		}
	}
	return node.Errorf(kind, "cannot start container %s: %s", id, strings.TrimSuffix(text, ": unknown"))
}
