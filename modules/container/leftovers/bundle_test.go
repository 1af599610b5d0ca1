package leftovers

import (
	"testing"

	"github.com/pkg/errors"
)

func TestBundleInAnError(t *testing.T) {
	const ours = "/run/containerd/io.containerd.runtime.v2.task/croft-ada/1-1"
	for text, want := range map[string]string{
		"mkdir " + ours + ": file exists: unknown":                                        ours,
		"mkdir " + ours + ": permission denied":                                           "",
		"mkdir /run/containerd/io.containerd.runtime.v2.task/croft-bob/1-1: file exists":  "",
		"mkdir /run/containerd/io.containerd.runtime.v2.task/croft-ada/1-10: file exists": "",
		"mkdir /etc: file exists":                                                         "",
		"another error":                                                                   "",
	} {
		if got := bundleIn(errors.New(text), "croft-ada", "1-1"); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if got := bundleIn(nil, "croft-ada", "1-1"); got != "" {
		t.Errorf("without an error: %q", got)
	}
}
