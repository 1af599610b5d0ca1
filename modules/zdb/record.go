package zdb

import (
	"encoding/json"
	"strings"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/zdb/check"
	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/versioned"
	"github.com/croft-edge/croft/pkg/workload"
)

const (
	recordSuffix  = ".json"
	damagedSuffix = ".damaged"
)

// record is the kept state of an attached container. Its file is a version header
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
	return r, check.Server(r.spec())
}

// records keeps the records of attached containers in a folder.
type records struct {
	folder *atomicfile.Folder
	log    zerolog.Logger
}

// save writes a record. It is on the disk when there is no error.
func (k records) save(r record) error {
	raw, err := encodeRecord(r)
	if err == nil {
		err = k.folder.Write(r.Container+recordSuffix, raw)
	}
	return errors.Wrapf(err, "cannot keep the port of zdb %s", r.Container)
}

// remove removes a container's record, damaged or not.
func (k records) remove(container string) error {
	return k.folder.Remove(container+recordSuffix, container+damagedSuffix)
}

// load reads the records of an earlier process.
func (k records) load(into *servers) error {
	names, err := k.folder.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if container, ok := strings.CutSuffix(name, damagedSuffix); ok && check.ID("container", container) == nil {
			into.get(container).damaged = "its record was damaged"
		}
	}
	for _, name := range names {
		container, ok := strings.CutSuffix(name, recordSuffix)
		if !ok || check.ID("container", container) != nil {
			continue
		}
		if err := k.loadOne(into.get(container)); err != nil {
			return err
		}
	}
	return nil
}

// loadOne reads the record of a container, and sets it aside when it is damaged.
func (k records) loadOne(s *server) error {
	raw, err := k.folder.Read(s.id + recordSuffix)
	if err != nil {
		return err
	}
	r, err := decodeRecord(s.id, raw)
	switch {
	case err == nil:
		s.record, s.known, s.damaged = r, true, ""
		return nil
	case errors.Is(err, errNewer):
		return node.Errorf(node.Refused, "cannot open the zdb module: the record of container %s can't be read: %w", s.id, err)
	}
	s.damaged = "its record was damaged: " + err.Error()
	k.log.Error().Str("id", s.id).Str("type", "zdb").Str("step", "load").Err(err).Msg("a record is damaged and was set aside: its zdb must be attached again")
	return k.folder.Move(s.id+recordSuffix, k.folder, s.id+damagedSuffix)
}
