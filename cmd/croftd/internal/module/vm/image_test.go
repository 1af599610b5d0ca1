package vm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module/storage"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/resources/host"
)

// TestImageIsShown: an operator sees in the table, in readiness and in the metrics how the image is.
func TestImageIsShown(t *testing.T) {
	const reference = "oci://example.org/kubernetes:1"
	next := time.Date(2027, 3, 1, 12, 5, 0, 0, time.UTC).UnixNano()
	for name, c := range map[string]struct {
		image node.VMImageStatus
		// warns is the text of readiness, empty when all is well; row is what the table's row has.
		warns string
		row   []string
		there float64
	}{
		"none":      {node.VMImageStatus{State: node.VMImageNone}, "", nil, 0},
		"no answer": {node.VMImageStatus{}, "", nil, 0},
		"ready": {node.VMImageStatus{Reference: reference, State: node.VMImageReady, Version: "1.36.3", Digest: "sha256:0123456789abcdef"}, "",
			[]string{reference, "ready", "1.36.3", "sha256:0123456789ab", "-", "-", "-"}, 1},
		"a folder": {node.VMImageStatus{Reference: "/srv/image", State: node.VMImageReady, Version: "1"}, "", []string{"/srv/image", "ready", "1", "-", "-", "-", "-"}, 1},
		"fetching": {node.VMImageStatus{Reference: reference, State: node.VMImageFetching, Done: 1 << 20, Total: 3 << 20}, "the image for Kubernetes VMs is being fetched: 1.0 MiB of 3.0 MiB",
			[]string{reference, "fetching", "-", "-", "1.0 MiB of 3.0 MiB", "-", "-"}, 0},
		"begun": {node.VMImageStatus{Reference: reference, State: node.VMImageFetching}, "the image for Kubernetes VMs is being fetched: its size isn't known yet",
			[]string{reference, "fetching", "-", "-", "its size isn't known yet", "-", "-"}, 0},
		"fetching a newer one": {node.VMImageStatus{Reference: reference, State: node.VMImageFetching, Version: "1", Done: 1 << 20, Total: 3 << 20}, "",
			[]string{reference, "fetching", "1", "-", "1.0 MiB of 3.0 MiB", "-", "-"}, 1},
		"failed": {node.VMImageStatus{Reference: reference, State: node.VMImageFailed, Error: "cannot\x1b pull", Next: next}, "no image for Kubernetes VMs: cannot. pull",
			[]string{reference, "failed", "-", "-", "-", "2027-03-01T12:05:00Z", "cannot. pull"}, 0},
		"no newer one": {node.VMImageStatus{Reference: reference, State: node.VMImageFailed, Version: "1", Error: "cannot pull", Next: next},
			"Kubernetes VMs boot image 1, a newer one can't be had: cannot pull", []string{reference, "failed", "1", "-", "-", "2027-03-01T12:05:00Z", "cannot pull"}, 1},
	} {
		s := nodestatus.Status{VMImage: c.image}
		got := check(s)
		if c.warns != "" && (got.Level != host.Warning || got.Detail != c.warns) || c.warns == "" && got.Level != host.Good {
			t.Errorf("%s: readiness is %+v, want %q", name, got, c.warns)
		}
		var rows [][]string
		write(func(cells ...string) { rows = append(rows, cells) }, s, time.Now())
		if c.row == nil && rows != nil || c.row != nil && (len(rows) != 3 || strings.Join(rows[2], "|") != strings.Join(c.row, "|") || len(rows[1]) != len(c.row)) {
			t.Errorf("%s: the table has %q, want %q", name, rows, c.row)
		}
		imageMetric().Read(s, func(value float64, _ ...string) {
			if value != c.there {
				t.Errorf("%s: the metric is %v, want %v", name, value, c.there)
			}
		})
	}
}

// TestAllWarnings: one trouble doesn't hide another.
func TestAllWarnings(t *testing.T) {
	got := check(nodestatus.Status{
		VM: node.VMStatus{Error: "no QEMU"}, VMs: []node.VMInfo{{ID: "7-1", State: node.VMWaiting, Cause: "it ended"}},
		VMImage: node.VMImageStatus{State: node.VMImageFailed, Error: "cannot pull"},
	})
	want := "no virtual machines: no QEMU; waiting for their next start: 7-1 (it ended); no image for Kubernetes VMs: cannot pull"
	if got.Level != host.Warning || got.Detail != want {
		t.Errorf("readiness is %+v, want %q", got, want)
	}
}

func TestImageSetting(t *testing.T) {
	for text, says := range map[string]string{
		"": "", "/srv/image": "", "oci://example.org/kubernetes:1": "",
		"https://example.org/kubernetes.fl": "",
		"https://example.org/kubernetes":    "its path must end in .fl",
		"srv/image":                         "an absolute path, oci://REGISTRY/REPOSITORY:TAG",
		"oci://example.org/kubernetes":      "neither a tag nor a digest",
		"oci://kubernetes:1":                "names no registry",
	} {
		l, err := config.Load(config.From{Modules: slices.Concat(storage.Descriptor().Settings, Descriptor().Settings), File: config.DefaultFile, Flags: map[string]string{kubernetes: text}})
		switch {
		case says == "" && (err != nil || l.Texts[kubernetes] != text):
			t.Errorf("%q: %v", text, err)
		case says != "" && (err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), `cannot use kubernetes-image = "`+text+`"`)):
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}
