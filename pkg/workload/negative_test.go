package workload_test

import (
	"testing"

	"github.com/croft-edge/croft/pkg/workload"
)

// verdict is this package's judgement of a recorded refusal, or of a body that the
// seed's explorer wrongly accepted. An empty part means: accepted.
type verdict struct {
	decode, verify, validate string
	// elsewhere names the refusing part where this package can't judge.
	elsewhere string
}

func negatives() map[string]verdict {
	return map[string]verdict{
		"tampered_data":                        {verify: "isn't one of 6Y6usApYSWiMRSNvnBFHL6vbSJamoCsjjwJsn6q4mpry over this document"},
		"schema_pretty_printed_before_signing": {verify: "isn't one of"},
		"schema_with_raw_ampersand":            {verify: "isn't one of"},
		"not_json":                             {decode: "invalid character 'n' looking for beginning of object key string"},
		"unknown_node":                         {elsewhere: "the explorer: the node isn't registered"},

		"accepted_body_node_differs_from_url_node":  {elsewhere: "the explorer: the path names another node; the node: it isn't for it"},
		"accepted_replay_of_same_body":              {elsewhere: "the node and the explorer: the hash is known"},
		"accepted_duration_changed_after_signing":   {elsewhere: "the operator: version 1 covers no duration, so it is accepted by a flag only"},
		"accepted_duration_1s":                      {elsewhere: "nobody: it is valid, and expires"},
		"accepted_duration_zero":                    {validate: "cannot accept duration: it is 0, must be a whole number of nanoseconds of at least 1"},
		"accepted_duration_negative":                {validate: "cannot accept duration: it is -432000000000000, must be"},
		"accepted_zdb_second_node_double_encrypted": {elsewhere: "nobody: what is in a box can't be seen; of version 2 OpenSecret refuses it"},

		"get_unknown":       {elsewhere: "no document"},
		"poll_bad_from":     {elsewhere: "no document"},
		"poll_unknown_node": {elsewhere: "no document"},
	}
}

func TestNegativesAsRecorded(t *testing.T) {
	var v map[string]exchange
	readJSON(t, "v1/http_negative.json", &v)
	want := negatives()
	if len(v) != len(want) {
		t.Errorf("%d negatives are recorded, %d have a verdict", len(v), len(want))
	}
	for name, e := range v {
		w, ok := want[name]
		if !ok {
			t.Errorf("%s has no verdict", name)
			continue
		}
		if w.elsewhere == "no document" {
			if e.Request != "" {
				t.Errorf("%s has a document", name)
			}
			continue
		}
		t.Run(name, func(t *testing.T) { w.check(t, e.Request) })
	}
}

func (w verdict) check(t *testing.T, body string) {
	r, err := workload.Decode([]byte(body))
	if said(t, "decode", err, w.decode); err != nil {
		return
	}
	said(t, "verify", workload.Verify(r), w.verify)
	said(t, "validate", workload.Validate(r), w.validate)
}

func said(t *testing.T, stage string, err error, want string) {
	t.Helper()
	if want != "" {
		wantError(t, stage, err, want)
	} else if err != nil {
		t.Errorf("%s: %v", stage, err)
	}
}

// A doubly sealed secret opens to a box: bound or not, nobody takes it for the password.
func TestDoublySealedPassword(t *testing.T) {
	var v map[string]exchange
	readJSON(t, "v1/http_negative.json", &v)
	r := decode(t, v["accepted_zdb_second_node_double_encrypted"].Request)
	zdb, err := workload.DataOf[workload.ZDB](r)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := workload.OpenSecretV1(testKey(t, "node2").Open, zdb.Password)
	if err != nil || len(plain) < 96 {
		t.Fatalf("opened %q, %v", plain, err)
	}
	_, err = workload.OpenSecret(testKey(t, "node2").Open, r.User, r.Type, "password", zdb.Password)
	wantError(t, "bound", err, "isn't bound to a user and a field")
}
