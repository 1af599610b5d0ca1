// Package power is a module that tells whether the machine runs on mains or on its battery. It is
// the example of docs/how-to/add-a-module.md, and no part of croftd.
package power

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/cmd/croftd/internal/cell"
	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/resources/host"
)

const (
	name    = "power"
	version = "0.1.0"
	// supply is the setting that names the kernel's file: 1 on mains, 0 on battery.
	supply = "power-supply"
)

// Descriptor describes the module.
func Descriptor() module.Descriptor {
	return module.Descriptor{
		Name: name, Bus: name, Summary: "whether the machine runs on mains",
		Settings: config.InGroup("Power", []config.Setting{{
			Name: supply, Kind: config.Text, Default: "/sys/class/power_supply/AC/online",
			Help: "file that has 1 while the machine runs on mains", Set: config.SetText(supply, absolute),
		}}),
		Open:    open,
		Ask:     ask,
		Check:   check,
		Metrics: []module.Metric{{Name: "croft_power_mains", Help: "1 while the machine runs on mains", Read: measure}},
		Table:   write,
		Commands: []module.Command{{
			Name: "down", Usage: "nothing: the module leaves nothing behind",
			Run: func(context.Context, module.Order) error { return nil },
		}},
	}
}

func absolute(path string) error {
	if !strings.HasPrefix(path, "/") {
		return errors.New("an absolute path")
	}
	return nil
}

// Reading is what the module tells on the bus, and in the node's status.
type Reading struct {
	Mains bool `json:"mains"`
}

// meter is what the module serves.
type meter struct{ file string }

// Read reads the supply now.
func (m meter) Read() (Reading, error) {
	raw, err := os.ReadFile(m.file)
	return Reading{Mains: strings.TrimSpace(string(raw)) == "1"}, err
}

func open(_ context.Context, h module.Host) (*module.Instance, error) {
	m := meter{file: h.Config.Texts[supply]}
	return &module.Instance{Objects: []module.Object{module.Serves(name, version, bus.Methods{"Read": m.Read})}}, nil
}

// ask calls the module as a generated stub would, and keeps the answer in the module's state.
func ask(ctx context.Context, client zbus.Client, s *host.ModuleSpec) error {
	response, err := client.RequestContext(ctx, name, bus.Object(name, version), "Read")
	if err != nil {
		return err
	}
	if response.Output.Error != nil {
		return errors.New(response.Output.Error.Message)
	}
	var r Reading
	if err := response.Unmarshal(&zbus.Loader{&r}); err != nil {
		return err
	}
	raw, err := json.Marshal(r)
	s.State = string(raw)
	return err
}

// reading is what a status has of the module; not known where the module hasn't answered.
func reading(s nodestatus.Status) (r Reading, known bool) {
	m := nodestatus.ModuleOf(&s, name)
	return r, m != nil && json.Unmarshal([]byte(m.State), &r) == nil
}

func check(s nodestatus.Status) host.Check {
	if r, known := reading(s); known && !r.Mains {
		return host.Warn(name, "the machine runs on its battery")
	}
	return host.Pass(name, "the machine runs on mains")
}

func measure(s nodestatus.Status, value module.Value) {
	r, _ := reading(s)
	value(module.Truth(r.Mains))
}

func write(row module.Row, s nodestatus.Status, _ time.Time) {
	if r, known := reading(s); known {
		row("")
		row("ON MAINS", cell.YesNo(r.Mains))
	}
}
