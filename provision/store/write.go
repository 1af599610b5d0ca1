package store

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store/durable"
)

// Write implements Records.
func (s *FSStore) Write(recs ...Record) ([]Record, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	b := batch{ids: make([]workload.ID, 0, len(recs)), records: make([]Record, 0, len(recs))}
	for _, r := range recs {
		if err := s.take(&b, r); err != nil {
			return nil, err
		}
	}
	for i := range b.records {
		if r := &b.records[i]; r.Result != nil && r.Result.Sequence == 0 {
			if err := s.stamp(r); err != nil {
				return nil, err
			}
		}
	}
	if err := s.store(b); err != nil {
		return nil, err
	}
	out := make([]Record, 0, len(b.records))
	for _, r := range b.records {
		out = append(out, r.Clone())
	}
	return out, nil
}

// batch is records that are written in one go.
type batch struct {
	ids     []workload.ID
	records []Record
}

// take adds a copy of r to the batch, ready to write but for the stamp of a new result. The
// caller holds writing.
func (s *FSStore) take(b *batch, r Record) error {
	id, err := check(r)
	if err != nil {
		return node.WithKind(node.Invalid, err)
	}
	old, known := s.find(id)
	if err := s.conflict(id, r, old, known); err != nil {
		return err
	}
	if err := b.conflict(id, r); err != nil {
		return err
	}
	r = r.Clone()
	r.Resends = old.Resends
	if known && old.Hash == r.Hash && sameResult(r.Result, old.Result) {
		// The caller's copy may predate the explorer's acknowledgement. Only a newer result
		// replaces a result; none is dropped.
		r.Result, r.Delivered = old.Result, old.Delivered
	}
	if r.Tombstone() {
		r.Cause = shortened(r.Cause)
	}
	b.ids, b.records = append(b.ids, id), append(b.records, r)
	return nil
}

// sameResult reports whether the stored result is kept: none is given, or one that isn't newer.
func sameResult(given, old *workload.Result) bool {
	return old != nil && (given == nil || given.Sequence > 0 && given.Sequence <= old.Sequence)
}

// conflict returns Exist when another reservation has r's ID or hash.
func (s *FSStore) conflict(id workload.ID, r, old Record, known bool) error {
	if known && old.Hash != r.Hash && old.Phase != Dismissed {
		return node.Errorf(node.Exist, "cannot store record %s: the ID is another reservation's", id)
	}
	if r.Phase == Dismissed || known && old.Hash == r.Hash && old.Phase != Dismissed {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if e := s.index.ofHash(r.Hash); e != nil && e.id != id {
		return node.Errorf(node.Exist, "cannot store record %s: reservation %s is the same request", id, e.id)
	}
	return nil
}

// conflict returns an error when r can't be stored with another record of the batch.
func (b *batch) conflict(id workload.ID, r Record) error {
	for i, other := range b.ids {
		if other == id {
			return node.Errorf(node.Invalid, "cannot store record %s: it is given twice", id)
		}
		if one := b.records[i]; one.Hash == r.Hash && one.Phase != Dismissed && r.Phase != Dismissed {
			return node.Errorf(node.Exist, "cannot store record %s: reservation %s is the same request", id, other)
		}
	}
	return nil
}

// stamp completes r's new result: the next sequence number, birth, ID, type, node, hash.
func (s *FSStore) stamp(r *Record) error {
	sequence, err := s.nextSequence()
	if err != nil {
		return err
	}
	res := r.Result
	res.Sequence, res.Birth = sequence, s.Birth().ID
	res.ID, res.Type, res.NodeID = r.Reservation.ID, r.Reservation.Type, r.Reservation.NodeID
	res.Hash, res.Signature = append([]byte(nil), r.Hash[:]...), nil
	// A text that can't be signed and sent would never be delivered.
	res.Error = workload.ErrorText(res.Error)
	if r.Phase == Refused || r.Phase == Dismissed {
		res.Error = shortened(res.Error)
	}
	r.Delivered = false
	return nil
}

// store writes a batch to the disk, then to the index. After an error the disk may have
// the batch already, or a part of it. The caller holds writing.
func (s *FSStore) store(b batch) error {
	if err := s.toDisk(b); err != nil {
		for _, id := range b.ids {
			if _, known := s.find(id); known {
				s.unsure[id] = true
			}
		}
		return err
	}
	for _, id := range b.ids {
		delete(s.unsure, id)
	}
	s.change(func() {
		for i, r := range b.records {
			if answered(r) {
				s.index.remove(b.ids[i])
				continue
			}
			s.index.put(b.ids[i], r)
		}
	})
	return nil
}

// toDisk writes a batch to the disk; answered records are removed from it.
func (s *FSStore) toDisk(b batch) error {
	var objects []durable.Object
	var gone []string
	for i, r := range b.records {
		name := b.ids[i].String()
		if answered(r) {
			gone = append(gone, name)
			continue
		}
		file, err := encode(r)
		if err != nil {
			return node.WithKind(node.Invalid, err)
		}
		objects = append(objects, durable.Object{Name: name, Data: file})
	}
	if len(objects) > 0 {
		if err := s.disk.Put(objects...); err != nil {
			return err
		}
	}
	if len(gone) > 0 {
		return s.disk.Delete(gone...)
	}
	return nil
}

// answered reports whether r is Dismissed and has no result left to deliver.
func answered(r Record) bool {
	return r.Phase == Dismissed && (r.Result == nil || r.Delivered)
}

// put stores one record as it is. The caller holds writing.
func (s *FSStore) put(id workload.ID, r Record) error {
	return s.store(batch{ids: []workload.ID{id}, records: []Record{r}})
}

// find returns the record of an ID.
func (s *memory) find(id workload.ID) (Record, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.index.get(id)
	if e == nil {
		return Record{}, false
	}
	return e.record.Clone(), true
}

// Resend implements Records.
func (s *FSStore) Resend(ids ...string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	var write, underway batch // underway is what the disk certainly has as undelivered already
	given := map[workload.ID]bool{}
	for _, id := range ids {
		parsed, r, err := s.known(id)
		if node.KindOf(err) == node.NotExist || err == nil && (r.Result == nil || given[parsed]) {
			continue
		}
		if err != nil {
			return err
		}
		given[parsed] = true
		to := &underway
		sequence := r.Result.Sequence
		if r.Result.Birth != "" && r.Result.Birth != s.Birth().ID {
			// The explorer may have a later answer, of the store that was lost or given up since: it keeps that of the birth that it has seen
			// last.
			if err := s.stamp(&r); err != nil {
				return err
			}
		}
		if r.Delivered || s.unsure[parsed] || r.Result.Sequence != sequence {
			to = &write
		}
		r.Delivered, r.Resends = false, r.Resends+1
		to.ids, to.records = append(to.ids, parsed), append(to.records, r)
	}
	if len(write.ids) > 0 {
		if err := s.store(write); err != nil {
			return err
		}
	}
	s.change(func() {
		for i, id := range underway.ids {
			s.index.put(id, underway.records[i])
		}
	})
	return nil
}

// Acknowledge implements Records.
func (s *FSStore) Acknowledge(receipts ...Receipt) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	var told batch
	for _, receipt := range receipts {
		parsed, r, err := s.known(receipt.ID)
		if node.KindOf(err) == node.NotExist || err == nil && (r.Delivered || !receipt.Confirms(r)) {
			continue
		}
		if err != nil {
			return err
		}
		if slices.Contains(told.ids, parsed) {
			continue
		}
		r.Delivered = true
		told.ids, told.records = append(told.ids, parsed), append(told.records, r)
	}
	if len(told.ids) == 0 {
		return nil
	}
	return s.store(told)
}

// maxTombText bounds the text that a tombstone keeps, in bytes of its file: requests that
// cost their sender nothing must cost the node little.
const maxTombText = 512

// shortened cuts text to maxTombText bytes of JSON.
func shortened(text string) string {
	const end = "…"
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text)*6 <= maxTombText {
		return text
	}
	size, cut := 0, 0
	for i, r := range text {
		size += sizeInJSON(r)
		if size > maxTombText {
			return strings.Clone(text[:cut]) + end
		}
		if size <= maxTombText-len(end) {
			cut = i + utf8.RuneLen(r)
		}
	}
	return text
}

// sizeInJSON is an upper bound on the bytes that encoding/json writes for r.
func sizeInJSON(r rune) int {
	switch {
	case r < ' ', r == '<', r == '>', r == '&', r == '\u2028', r == '\u2029', r == 0x7f:
		return 6
	case r == '"', r == '\\':
		return 2
	}
	return utf8.RuneLen(r)
}
