package container

import (
	"cmp"
	"context"
	"fmt"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/container/image"
	"github.com/croft-edge/croft/modules/container/rootfs"
	"github.com/croft-edge/croft/modules/container/spec"
	"github.com/croft-edge/croft/pkg/kernel"
)

// Features are what containers need of the kernel.
func (m *Module) Features() []kernel.Feature {
	layers := func(ctx context.Context) error {
		folder, err := image.Folder(ctx, m.daemon)
		if err != nil {
			return kernel.Unknown(err)
		}
		return rootfs.Supported(folder)
	}
	return append([]kernel.Feature{
		{Name: "user namespaces", Effect: none, Try: func(context.Context) error { return rootfs.Namespaces() }},
		{Name: "id-mapped layers", Effect: none, Try: layers},
	}, hostFeatures(m.service.status.runtime.host, func() (spec.Host, error) { return spec.Detect(spec.Probe{}) })...)
}

// control is something that keeps containers in their limits.
type control struct {
	name, effect string
	degraded     bool
	of           func(h spec.Host) bool
	// why it isn't there, where the machine tells; empty for the usual reason.
	why func(h spec.Host) string
}

// lost is the usual reason: what was tried in a control group of the machine didn't succeed.
func lost(h spec.Host) string {
	return fmt.Sprintf("a control group of version %d doesn't take it: the kernel has no such controller, or it isn't switched on", h.Cgroup)
}

func said(text string) func(spec.Host) string { return func(spec.Host) string { return text } }

// none is what is so without a limit that each container needs.
const none = "no container can be made"

func controls() []control {
	return []control{
		{"cpu limits", none, false, func(h spec.Host) bool { return h.CPU }, lost},
		{"memory limits", none, false, func(h spec.Host) bool { return h.Memory }, lost},
		{"pids limits", none, false, func(h spec.Host) bool { return h.PIDs }, lost},
		{"seccomp filters", none, false, func(h spec.Host) bool { return h.Seccomp }, said("the kernel filters no system calls")},
		{"swap limits", "a container may take swap beside its memory", false, func(h spec.Host) bool { return h.Swap }, lost},
		{"io weights", "a container that uses a disk much slows the others", false, func(h spec.Host) bool { return h.IOWeight }, lost},
		{"device filters", "containers' devices aren't filtered; they can't make any all the same", false, func(h spec.Host) bool { return h.Devices }, lost},
		{"control group namespaces", "containers see the names of the machine's control groups", true, func(h spec.Host) bool { return h.CgroupNamespace }, said("the kernel has none")},
		{"control groups of version 2", "limits of writing to disks count direct and synchronous writes only", true, func(h spec.Host) bool { return h.Cgroup == 2 }, said("the machine has those of version 1 mounted at /sys/fs/cgroup")},
	}
}

// hostFeatures are the controls, with AppArmor. host is what is in force since the module was opened, detect looks anew.
func hostFeatures(host spec.Host, detect func() (spec.Host, error)) []kernel.Feature {
	var out []kernel.Feature
	for _, c := range append(controls(), appArmor(host)) {
		out = append(out, kernel.Feature{Name: c.name, Effect: c.effect, Degraded: c.degraded, Try: func(context.Context) error {
			if c.of(host) {
				return nil
			}
			now, err := detect()
			switch {
			case err != nil:
				return err
			case c.of(now):
				return errors.New("it is there now: it is used once croftd is started again")
			}
			return errors.New(c.why(now))
		}})
	}
	return out
}

// appArmor is worth a warning only where the kernel has it: other machines have other means, or do with the other controls.
func appArmor(host spec.Host) control {
	why := func(h spec.Host) string { return cmp.Or(h.NoAppArmor, "the kernel has none, or it is switched off") }
	return control{"AppArmor", "containers run without a profile of it; the other controls hold", host.NoAppArmor == "", func(h spec.Host) bool { return h.AppArmor }, why}
}
