package zdb

import (
	"encoding/json"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/versioned"
	"github.com/croft-edge/croft/pkg/workload"
)

const (
	recordSuffix  = ".json"
	damagedSuffix = ".damaged"
)

// record is what is kept of a container in hand. Its file is a version header
// and JSON.
type record struct {
	Container string           `json:"container"`
	Mode      workload.ZDBMode `json:"mode"`
	Data      string           `json:"data"`
	Port      uint16           `json:"port"`
}

func (r record) spec() node.ZDBServerSpec {
	return node.ZDBServerSpec{Container: r.Container, Mode: r.Mode, Data: r.Data}
}

// recordVersion is that of the files that are written. Those of another major
// version can't be read.
func recordVersion() versioned.Version { return versioned.Version{Major: 1} }

// errNewer is of a record that isn't damaged.
var errNewer = errors.New("it was written by a newer croft")

func encodeRecord(r record) ([]byte, error) {
	raw, err := json.Marshal(r)
	return versioned.Join(recordVersion(), append(raw, '\n')), err
}

func decodeRecord(container string, file []byte) (record, error) {
	v, body := versioned.Split(file)
	if v.Major > recordVersion().Major {
		return record{}, errors.Wrapf(errNewer, "version %s", v)
	}
	var r record
	if v.Major != recordVersion().Major {
		return r, errors.Errorf("it is of version %s", v)
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return r, err
	}
	if r.Container != container {
		return r, errors.Errorf("it is of container %.80q", r.Container)
	}
	if r.Port == 0 {
		return r, errors.New("it has no port")
	}
	return r, checkServer(r.spec())
}

// save writes a record. It is on the disk when there is no error.
func (m *Module) save(r record) error {
	raw, err := encodeRecord(r)
	if err == nil {
		err = m.folder.Write(r.Container+recordSuffix, raw)
	}
	return errors.Wrapf(err, "cannot keep the port of zdb %s", r.Container)
}

// load reads what an earlier process left.
func (m *Module) load() error {
	names, err := m.folder.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if container, ok := strings.CutSuffix(name, damagedSuffix); ok && checkID("container", container) == nil {
			m.server(container).damaged = "its record was damaged"
		}
	}
	for _, name := range names {
		container, ok := strings.CutSuffix(name, recordSuffix)
		if !ok || checkID("container", container) != nil {
			continue
		}
		if err := m.loadOne(container); err != nil {
			return err
		}
	}
	return nil
}

// loadOne reads the record of a container, and sets it aside when it is damaged.
func (m *Module) loadOne(container string) error {
	raw, err := m.folder.Read(container + recordSuffix)
	if err != nil {
		return err
	}
	s := m.server(container)
	r, err := decodeRecord(container, raw)
	switch {
	case err == nil:
		s.record, s.known, s.damaged = r, true, ""
		return nil
	case errors.Is(err, errNewer):
		return node.Errorf(node.Refused, "cannot open the zdb module: the record of container %s can't be read: %w", container, err)
	}
	s.damaged = "its record was damaged: " + err.Error()
	m.cfg.Log.Error().Err(err).Str("id", container).Str("type", "zdb").Str("step", "load").Msg("a record is damaged and was set aside: its zdb must be attached again")
	return m.folder.Move(container+recordSuffix, m.folder, container+damagedSuffix)
}
