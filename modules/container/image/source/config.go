package source

import (
	"path/filepath"

	"github.com/croft-edge/croft/pkg/fetch"
	"github.com/croft-edge/croft/pkg/node"
)

// Config says where images may come from.
type Config struct {
	fetch.Config
	// Paths are the folders below which images may lie on this machine.
	Paths []string
	// Own are the node's own images by name, each the absolute path of an OCI
	// layout folder or a tar: croft://NAME is one, for node.OwnUser only.
	Own map[string]string
}

// Validate names the field that is wrong. node.Invalid.
func (c Config) Validate() error {
	invalid := func(format string, args ...any) error {
		return node.Errorf(node.Invalid, "cannot use the images' settings: "+format, args...)
	}
	for _, p := range c.Paths {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p {
			return invalid("Paths has %q, must be absolute paths without . and ..", p)
		}
	}
	for name, p := range c.Own {
		if !ownForm.MatchString(name) || !filepath.IsAbs(p) || filepath.Clean(p) != p || p == "/" {
			return invalid("Own has %q at %q, must be a name of small letters and digits, and an absolute path without . and ..", name, p)
		}
	}
	return c.Config.Validate()
}
