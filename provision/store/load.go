package store

import (
	"encoding/hex"
	"encoding/json"
	"path"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/versioned"
	"github.com/croft-edge/croft/pkg/workload"
)

// quarantineFolder holds damaged files; causeSuffix marks the file beside each that holds the cause.
const (
	quarantineFolder = "quarantine"
	causeSuffix      = ".cause"
)

// reading is one scan of the whole folder. It changes nothing on the disk: load sets its
// findings aside once all files could be read.
type reading struct {
	*FSStore
	findings []finding
	// answered names records that were kept only until their result was delivered; the
	// process ended before it removed them.
	answered []string
	// croft is whether croft itself (not the seed) wrote any record; birth is the state of
	// the birth file.
	croft bool
	birth birthState
}

// finding is a file that could be read and is damaged.
type finding struct {
	name, id string
	cause    error
}

// birthState is the state of the birth file.
type birthState int

const (
	birthMissing birthState = iota
	birthSound
	birthDamaged
)

// load reads the whole store before anyone else can use it. If a file can't be read, or a
// newer croft wrote it, load fails and changes nothing on the disk.
func (s *FSStore) load() error {
	r := reading{FSStore: s}
	for _, read := range []func() error{
		r.readQuarantine, r.readRecords, r.readNetworks, r.readMeta, r.judgeBirth,
	} {
		if err := read(); err != nil {
			return err
		}
	}
	for _, f := range r.findings {
		r.setAside(f.name, f.id, f.cause)
	}
	if len(r.answered) > 0 {
		if err := s.disk.Delete(r.answered...); err != nil {
			s.cfg.Log.Error().Err(err).Msg("cannot remove records that aren't needed any more: tried again at the next start")
		}
	}
	return s.settleBirth(r.birth)
}

// get returns a file's content; false when the file is missing. A read error doesn't mean
// damage: the next start may read the file.
func (r *reading) get(name string) ([]byte, bool, error) {
	file, err := r.disk.Get(name)
	switch {
	case err == nil:
		return file, true, nil
	case errors.Is(err, node.NotExist):
		return nil, false, nil
	}
	return nil, false, r.unreadable(name, err)
}

func (r *reading) unreadable(name string, err error) error {
	return node.WithKind(node.Transient, errors.Wrapf(err, "cannot open store %s: %s can't be read, nothing was changed", r.cfg.Root, name))
}

// list returns the names in a folder.
func (r *reading) list(folder string) ([]string, error) {
	names, err := r.disk.List(folder)
	if err != nil {
		return nil, r.unreadable("folder "+strconv.Quote(folder), err)
	}
	return names, nil
}

// wrong notes a damaged file. A newer croft's file isn't damaged: it is an error.
func (r *reading) wrong(name, id string, cause error) error {
	if errors.Is(cause, errNewer) {
		return node.WithKind(node.Refused, errors.Wrapf(cause, "cannot open store %s: %s", r.cfg.Root, name))
	}
	r.findings = append(r.findings, finding{name: name, id: id, cause: cause})
	return nil
}

func (r *reading) readRecords() error {
	names, err := r.list("")
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == lockName {
			continue
		}
		if err := r.readRecord(name); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) readRecord(name string) error {
	id, err := workload.ParseID(name)
	if err != nil || id.String() != name {
		return r.wrong(name, id.String(), errors.New("its name isn't a reservation's ID"))
	}
	file, there, err := r.get(name)
	if err != nil || !there {
		return err
	}
	rec, err := recordOf(id, file)
	if err != nil {
		return r.wrong(name, id.String(), err)
	}
	if v, _ := versioned.Split(file); v.Major >= oldestSealed {
		r.croft = true
	}
	if rec.Result != nil && rec.Result.Sequence > r.meta.sequence {
		r.meta.sequence = rec.Result.Sequence
	}
	if answered(rec) {
		r.answered = append(r.answered, name)
		return nil
	}
	r.index.put(id, rec)
	return nil
}

// recordOf decodes a record's file and checks that the record has that ID.
func recordOf(id workload.ID, file []byte) (Record, error) {
	rec, err := decode(file)
	if err != nil {
		return Record{}, err
	}
	says, err := check(rec)
	if err != nil {
		return Record{}, err
	}
	if says != id {
		return Record{}, errors.Errorf("it is the record of %s", says)
	}
	return rec, nil
}

func (r *reading) readNetworks() error {
	names, err := r.list(networkFolder)
	if err != nil {
		return err
	}
	for _, name := range names {
		var key NetworkKey
		raw, err := hex.DecodeString(path.Base(name))
		if err != nil || copy(key[:], raw) != len(key) {
			if err := r.wrong(name, "", errors.New("its name isn't a network's key")); err != nil {
				return err
			}
			continue
		}
		var newest remembered
		known, err := r.getJSON(name, &newest)
		if err != nil {
			return err
		}
		if known {
			r.networks[key] = newest
		}
	}
	return nil
}

// getJSON reads a file that putJSON wrote; false when the file is missing or damaged.
func (r *reading) getJSON(name string, v any) (bool, error) {
	file, there, err := r.get(name)
	if err != nil || !there {
		return false, err
	}
	body, err := open(file)
	if err == nil {
		err = json.Unmarshal(body, v)
	}
	if err != nil {
		return false, r.wrong(name, "", err)
	}
	return true, nil
}

// readQuarantine lists the files set aside earlier, with their causes.
func (r *reading) readQuarantine() error {
	names, err := r.list(quarantineFolder)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, causeSuffix) {
			continue
		}
		q := Quarantine{Name: name, Cause: "not known any more"}
		file, there, err := r.get(name + causeSuffix)
		if err != nil {
			return err
		}
		if there {
			if body, err := open(file); err == nil {
				_ = json.Unmarshal(body, &q)
			}
		}
		q.Name = name
		r.damaged = append(r.damaged, q)
	}
	return nil
}

// setAside moves a damaged file to the quarantine. If the move fails, the file stays, ignored.
func (r *reading) setAside(name, id string, cause error) {
	q := Quarantine{Name: name, ID: id, Cause: cause.Error()}
	target := r.freeName(strings.ReplaceAll(name, "/", "_"))
	if err := r.disk.Move(name, target); err != nil {
		r.cfg.Log.Error().Err(err).Str("name", name).Msg("cannot set a damaged file aside")
	} else {
		q.Name = target
		if err := r.putJSON(target+causeSuffix, q); err != nil {
			r.cfg.Log.Error().Err(err).Str("name", name).Msg("cannot keep the cause of a damaged file")
		}
	}
	r.damaged = append(r.damaged, q)
	r.cfg.Log.Error().Str("id", id).Str("name", q.Name).Str("err", q.Cause).Msg("a damaged file of the store was set aside")
}

// freeName returns an unused name in the quarantine.
func (r *reading) freeName(name string) string {
	target := quarantineFolder + "/" + name
	taken := map[string]bool{}
	for _, q := range r.damaged {
		taken[q.Name] = true
	}
	for i := 1; taken[target]; i++ {
		target = quarantineFolder + "/" + name + "." + strconv.Itoa(i)
	}
	return target
}

// networkName is the file that remembers the newest Created of a network.
func networkName(key NetworkKey) string { return networkFolder + "/" + hex.EncodeToString(key[:]) }
