package command

import (
	"strings"

	"github.com/croft-edge/croft/cmd/croft/internal/project"
)

// plainSecrets says what looks like a secret and isn't sealed.
func (s *shell) plainSecrets(f *project.File) {
	for _, w := range f.Workloads {
		if names := w.PlainSecrets(); len(names) > 0 {
			s.say("%s: anybody reads env on the explorer; if %s is secret, put it into secret_env", w.Name, strings.Join(names, ", "))
		}
	}
}
