// Package vm describes the vm module: virtual machines.
package vm

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/threefoldtech/zbus"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/cmd/croftd/internal/cell"
	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/module/container"
	"github.com/croft-edge/croft/modules/vm"
	"github.com/croft-edge/croft/modules/vm/qemu"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/logs"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/parts"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
)

// The module's settings.
const (
	emulator    = "qemu"
	accelerator = "vm-accelerator"
	kubernetes  = "kubernetes-image"
)

// workers are for calls that take long: a deletion waits for its guest's power-off.
const workers = 12

// Descriptor describes the module.
func Descriptor() module.Descriptor {
	return module.Descriptor{
		Name: "vm", Aliases: []string{node.VMModule}, Bus: node.VMModule, Summary: "virtual machines",
		Settings: config.InGroup("Virtual machines", []config.Setting{
			{Name: emulator, Kind: config.Text, Default: "qemu-system-x86_64", Help: "QEMU's program: a path, or a name that is found in PATH", Set: config.SetText(emulator, program)},
			{Name: accelerator, Kind: config.Text, Default: "auto", Help: "what executes guests: auto (kvm where it is seen to work, else tcg), kvm, or tcg", Set: config.SetTextOf(accelerator, "auto", "kvm", "tcg")},
			{Name: kubernetes, Kind: config.Text, Help: "image that Kubernetes VMs boot: a folder, an artifact (oci://REGISTRY/REPOSITORY:TAG or oci://REGISTRY/REPOSITORY@sha256:DIGEST) or a flist (https://HOST/PATH.fl or https://HOST/PATH.fl#sha256=DIGEST); empty for none", Set: config.SetText(kubernetes, imageSource)},
		}),
		Commands: []module.Command{{
			Name: "down", Usage: "end the stopped node's virtual machines; the node starts them again when it starts", Run: down,
		}},
		Objects: []zbus.ObjectID{bus.Object(node.VMObject, node.VMVersion), bus.Object(node.VMImageObject, node.VMImageVersion), bus.Object(node.ChangesObject, node.ChangesVersion)},
		Serves:  []workload.Type{workload.TypeKubernetes},
		// The smallest virtual machine has 1 GiB; a machine with as much shows less, which its kernel keeps for itself.
		Constraints: func(f module.Facts) []module.Unmet { return f.NeedsMemory(workload.GiB / 4 * 3) },
		Open:        open,
		Ask:         ask,
		Changes:     true,
		Kernel:      true,
		Parts:       []module.Part{{Of: &parts.VirtualMachine{}, Every: time.Minute, List: list}},
		Check:       check,
		Metrics: []module.Metric{
			{Name: "croft_vms", Help: "virtual machines", Read: func(s nodestatus.Status, value module.Value) { value(float64(len(s.VMs))) }},
			{Name: "croft_vm_running", Help: "1 while a virtual machine runs", Labels: []string{"id"}, Read: func(s nodestatus.Status, value module.Value) {
				for _, one := range s.VMs {
					value(module.Truth(one.State == node.VMRunning), one.ID)
				}
			}},
			{Name: "croft_vm_restarts_total", Help: "starts of a virtual machine after its first", Labels: []string{"id"}, Counter: true, Read: func(s nodestatus.Status, value module.Value) {
				for _, one := range s.VMs {
					value(float64(one.Restarts), one.ID)
				}
			}},
			imageMetric(),
		},
		Table: write,
	}
}

func program(text string) error {
	if text == "" {
		return errors.New("the path or the name of a program")
	}
	return nil
}

// Cgroup is the path of the control group that has those of all VMs.
func Cgroup(c config.Config) string { return "/" + c.Containers.Cgroup + "-vms" }

// moduleConfig is the module's configuration; the keeper has its consoles' output written.
func moduleConfig(c config.Config, log zerolog.Logger) (vm.Config, *logs.Keeper) {
	outputs := container.LogConfig(c, log)
	keeper := logs.NewKeeper(outputs)
	cfg := vm.Config{
		RunDir: c.RunDir, Program: c.Texts[emulator], Command: []string{"/proc/self/exe", "carrier", "vm"}, Discarder: []string{"/proc/self/exe", "carrier", "discard"},
		Cgroup: Cgroup(c), Logs: consoles{keeper}, Log: log,
	}
	if text := c.Texts[accelerator]; text != "auto" {
		cfg.Accelerator = qemu.Accelerator(text)
	}
	return cfg, keeper
}

func open(_ context.Context, h module.Host) (*module.Instance, error) {
	cfg, keeper := moduleConfig(h.Config, h.Log)
	m, err := vm.Open(cfg)
	if err != nil {
		return nil, err
	}
	images, err := openImages(h, m.Paths)
	if err != nil {
		m.Close()
		return nil, err
	}
	return &module.Instance{
		Workers: workers, Features: vm.Features(m),
		Objects: []module.Object{
			module.Serves(node.VMObject, node.VMVersion, stubs.VMsMethods(m)),
			module.Serves(node.VMImageObject, node.VMImageVersion, stubs.VMImagesMethods(images)),
			module.Serves(node.ChangesObject, node.ChangesVersion, stubs.ChangesMethods(m.Changes())),
		},
		Run: func(ctx context.Context) error {
			var parts sync.WaitGroup
			for name, run := range map[string]func(context.Context) error{"vm logs": keeper.Run, "vm image": images.Run} {
				parts.Go(func() { _ = supervise.Keep(ctx, h.Log, name, supervise.DefaultBackoff(), run) }) // Keep logs what ends it
			}
			parts.Wait()
			return nil
		},
		Close: func(context.Context) error {
			images.Close()
			m.Close()
			keeper.Close()
			return nil
		},
	}, nil
}

func down(ctx context.Context, o module.Order) error {
	cfg, keeper := moduleConfig(o.Config, zerolog.Nop())
	defer keeper.Close()
	return vm.TakeDown(ctx, cfg)
}

// consoles has the log carrier write VMs' output, as containers' is written.
type consoles struct{ keeper *logs.Keeper }

// Open implements vm.Logs.
func (c consoles) Open(ctx context.Context, id, user string) (*os.File, error) {
	fifos, err := c.keeper.Open(ctx, id, user)
	if err != nil {
		return nil, err
	}
	// Without a reader it isn't waited for: the carrier may just have ended.
	file, err := os.OpenFile(fifos.Stdout, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENXIO) {
		return nil, node.Errorf(node.Transient, "cannot open the log of VM %s: nobody reads it now", id)
	}
	if err != nil {
		return nil, errors.Wrapf(err, "cannot open the log of VM %s", id)
	}
	return file, nil
}

// Drop implements vm.Logs.
func (c consoles) Drop(ctx context.Context, id string) error { return c.keeper.Drop(ctx, id, false) }

func ask(ctx context.Context, client zbus.Client, s *host.ModuleSpec) error {
	status, err := stubs.NewVMsStub(client).Status(ctx)
	if err != nil {
		return err
	}
	image, err := stubs.NewVMImagesStub(client).Status(ctx)
	s.VM, s.VMImage = &status, &image
	return err
}

func list(ctx context.Context, client zbus.Client) ([]resource.Resource, error) {
	all, err := stubs.NewVMsStub(client).List(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]resource.Resource, 0, len(all))
	for _, v := range all {
		out = append(out, parts.NewVirtualMachine(v))
	}
	return out, nil
}

// check only warns: containers and networks work without VMs.
func check(s nodestatus.Status) host.Check {
	var wrong []string
	if s.VM.Error != "" {
		wrong = append(wrong, "no virtual machines: "+cell.Printable(s.VM.Error))
	}
	var waiting []string
	for _, one := range s.VMs {
		if one.State == node.VMWaiting {
			waiting = append(waiting, one.ID+" ("+cell.Printable(one.Cause)+")")
		}
	}
	if len(waiting) > 0 {
		wrong = append(wrong, "waiting for their next start: "+cell.Some(waiting))
	}
	if image := imageProblem(s.VMImage); image != "" {
		wrong = append(wrong, image)
	}
	if len(wrong) > 0 {
		return host.Warn("vm", strings.Join(wrong, "; "))
	}
	return host.Pass("vm", fmt.Sprintf("%d virtual machines, %s", len(s.VMs), cmp.Or(s.VM.Accelerator, "no accelerator is known yet")))
}

// write prints the image and the VMs.
func write(row module.Row, s nodestatus.Status, now time.Time) {
	writeImage(row, s.VMImage)
	if len(s.VMs) == 0 {
		return
	}
	row("")
	row("VM", "STATE", "CPU", "MEMORY", "ACCELERATOR", "SINCE", "RESTARTS", "CAUSE")
	for _, one := range s.VMs {
		since := "-"
		if one.Since != 0 {
			since = now.Sub(time.Unix(0, one.Since)).Round(time.Second).String()
		}
		row(one.ID, one.State, fmt.Sprint(one.CPU), cell.MiB(one.Memory), one.Accelerator, since, fmt.Sprint(one.Restarts), cell.Printable(cmp.Or(one.Cause, "-")))
	}
}
