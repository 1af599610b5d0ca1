package storage

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
)

// mark says that a pool was made here, or adopted. As long as it is there the
// pool's place is never formatted again, whatever lies there now.
type mark struct {
	Name string `json:"name"`
	UUID string `json:"uuid"`
	// Disk is the path of the disk as the operator wrote it; empty for a loop file.
	Disk string `json:"disk,omitempty"`
}

func (c Config) poolsDir() string           { return filepath.Join(c.State, "pools") }
func (c Config) image(pool string) string   { return filepath.Join(c.poolsDir(), pool+".img") }
func (c Config) markOf(pool string) string  { return filepath.Join(c.poolsDir(), pool+".json") }
func (c Config) indexOf(pool string) string { return filepath.Join(c.poolsDir(), pool+".index") }
func (c Config) mount(pool string) string   { return filepath.Join(c.Mounts, pool) }

func (c Config) writeMark(m mark) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		err = atomicfile.WriteFile(c.markOf(m.Name), append(text, '\n'), 0o600)
	}
	return errors.Wrapf(err, "cannot mark pool %s", m.Name)
}

// readMarks reads all marks, by the pool's name. An unreadable one still marks
// its pool: better not to use a disk than to format it.
func (c Config) readMarks() (map[string]mark, error) {
	paths, err := filepath.Glob(filepath.Join(c.poolsDir(), "*.json"))
	if err != nil {
		return nil, errors.Wrap(err, "cannot read the marks of pools")
	}
	marks := map[string]mark{}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, node.WithKind(node.Transient, errors.Wrap(err, "cannot read the mark of a pool"))
		}
		m := mark{Name: name}
		if err := json.Unmarshal(text, &m); err != nil || m.Name != name {
			c.Log.Error().Err(err).Str("pool", name).Str("file", path).Msg("the mark of a pool is damaged")
			m = mark{Name: name}
		}
		marks[name] = m
	}
	return marks, nil
}
