package module

import (
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/pkg/workload"
)

// off is the setting that switches modules off; none where every module has to run.
func off(all []Descriptor) []config.Setting {
	names := optional(all)
	if len(names) == 0 {
		return nil
	}
	allowed := strings.Join(names, ", ")
	return config.InGroup("Admission", []config.Setting{{
		Name: "modules-off", Kind: config.List, ReadBy: []string{config.Live},
		Help: "modules that are switched off (" + allowed + "): the node refuses new workloads that need one, and closes it once there are none left",
		Set: config.Matching(strings.Join(names, "|"), func(c *config.Config, text string) error {
			c.ModulesOff = nil
			for _, name := range config.Split(text) {
				if !slices.Contains(names, name) {
					return errors.Errorf("%s; the node can't be without other modules", allowed)
				}
				if !slices.Contains(c.ModulesOff, name) {
					c.ModulesOff = append(c.ModulesOff, name)
				}
			}
			slices.Sort(c.ModulesOff)
			return nil
		}),
	}})
}

// optional are the names of the modules that may be switched off.
func optional(all []Descriptor) []string {
	var out []string
	for _, d := range all {
		if len(d.Serves) > 0 {
			out = append(out, d.Name)
		}
	}
	slices.Sort(out)
	return out
}

// SwitchedOff is the first module of those names that workloads of a type need; empty for none.
func SwitchedOff(all []Descriptor, names []string, t workload.Type) string {
	for _, d := range all {
		if slices.Contains(d.Serves, t) && slices.Contains(names, d.Name) {
			return d.Name
		}
	}
	return ""
}
