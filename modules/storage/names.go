package storage

import (
	"strings"

	"github.com/croft-edge/croft/pkg/node"
)

// Temporary names begin with a dot, which no valid name does.
const (
	newPrefix  = ".new-"
	gonePrefix = ".gone-"
)

const nameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// checkName refuses what must not become a file name.
func checkName(what, name string) error {
	if name == "" || len(name) > 64 || strings.Trim(name, nameChars) != "" || name[0] == '.' || name[0] == '-' {
		if len(name) > 100 {
			name = name[:100] + "…"
		}
		return node.Errorf(node.Invalid, "cannot use %s: name is %q, must be 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', and not begin with '.' or '-'", what, name)
	}
	return nil
}
