package fs

import (
	"path/filepath"
	"time"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/place"
)

// Kind begins the names of instances.
const Kind = "fs"

// Settings are an instance's. They make its name.
type Settings struct {
	// Folder is the absolute path of a folder. It is made if it is missing, unless Mounted.
	Folder string `json:"folder"`
	// Mounted is whether the folder is on a file system that is mounted somewhere below the root: while it is on the root's own, nothing is
	// mounted there, and the instance is down. Set it for NFS and for other disks.
	Mounted bool `json:"mounted,omitempty"`
}

// Config says what the provider uses.
type Config struct {
	Instances []Settings
	// Existing brings up only what a machine has used before: nothing is made, and no place becomes a machine's. NotExist for others.
	Existing bool
	// Now measures latencies; nil is the machine's clock.
	Now func() time.Time
	// Hook stops or fails the durable steps, in tests.
	Hook atomicfile.Hook
}

// New makes a provider. It touches no folder before Initialize.
func New(c Config) (persist.Provider, error) {
	var places []place.Named
	for _, s := range c.Instances {
		if err := s.Check(); err != nil {
			return nil, err
		}
		name, err := s.Instance()
		if err != nil {
			return nil, err
		}
		places = append(places, place.Named{Name: name, Place: newFolder(s, c)})
	}
	return place.New(places, c.Now)
}

// Check names the setting that is wrong, its value and what is allowed. node.Invalid.
func (s Settings) Check() error {
	if !filepath.IsAbs(s.Folder) || filepath.Clean(s.Folder) != s.Folder || s.Folder == "/" {
		return node.Errorf(node.Invalid, "cannot use folder %q for copies: it must be a clean absolute path, such as /backup/croft", s.Folder)
	}
	return nil
}

// Instance is the name of the instance with these settings.
func (s Settings) Instance() (string, error) { return persist.InstanceName(Kind, s) }
