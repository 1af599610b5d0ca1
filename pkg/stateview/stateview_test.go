package stateview_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"

	"github.com/croft-edge/croft/internal/testing/statetest"
	"github.com/croft-edge/croft/pkg/stateview"
)

func types(t *testing.T) stateview.Types {
	t.Helper()
	st, err := statetest.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := stateview.ReadTypes(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTypesAreFoundByAllTheirNames(t *testing.T) {
	all := types(t)
	if len(all) != 5 {
		t.Fatalf("there are %d types", len(all))
	}
	for name, want := range map[string]string{
		"Workloads.croft": statetest.WorkloadType, "workloads": statetest.WorkloadType, "workload": statetest.WorkloadType, "WL": statetest.WorkloadType,
		"orders": statetest.OrderType, "Order": statetest.OrderType, "ns": meta.NamespaceType, "api-resources": meta.ResourceDefinitionType, "rd": meta.ResourceDefinitionType,
		"workloadsecret": statetest.SecretType,
	} {
		got, err := all.Find(name)
		if err != nil || got.Name != want {
			t.Errorf("%s is %s, %v; want %s", name, got.Name, err, want)
		}
	}
	secret, err := all.Find("ws")
	if err != nil || !secret.Sensitive || secret.Namespace != "node" || secret.Display != "WorkloadSecret" {
		t.Errorf("got %+v, %v", secret, err)
	}
}

func TestUnknownAndAmbiguousTypesAreExplained(t *testing.T) {
	all := types(t)
	for name, want := range map[string]string{
		"wokload":   "did you mean Workloads.croft?",
		"work":      "did you mean WorkloadSecrets.croft, Workloads.croft?",
		"ordres":    "did you mean Orders.croft?",
		"pods":      "it must be one of Namespaces.meta.cosi.dev, Orders.croft, ResourceDefinitions.meta.cosi.dev, WorkloadSecrets.croft, Workloads.croft",
		"":          "it must be one of",
		"x\x1b[31m": `"x\x1b[31m"`,
	} {
		if _, err := all.Find(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
	twice := append(stateview.Types{{Name: "Workloads.other", Display: "Workload", Aliases: []string{"workloads"}}}, all...)
	if _, err := twice.Find("workload"); err == nil || !strings.Contains(err.Error(), "may be Workloads.other, Workloads.croft; give the full name") {
		t.Errorf("got %v", err)
	}
	if got, err := twice.Find("workloads.croft"); err != nil || got.Name != statetest.WorkloadType {
		t.Errorf("the full name: %v, %v", got.Name, err)
	}
}

func TestCells(t *testing.T) {
	var spec any
	decoder := json.NewDecoder(strings.NewReader(`{"phase":"deployed","used":12345678901234,"total":5,"ok":true,"none":null,"tags":["a","b"],"deep":{"x":[1,{"y":"<z>"}]},
		"a-b": 1, "conditions":[{"type":"Accepted","status":"True"},{"type":"Provisioned","status":"False","message":"no } room"}]}`))
	decoder.UseNumber()
	if err := decoder.Decode(&spec); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"{.phase}": "deployed", "$.phase": "deployed", "{$.phase}": "deployed", "{.used} of {.total}": "12345678901234 of 5",
		"{.ok}": "true", "{.none}": "", "{.missing}": "", "{.tags[:]}": "a, b", "{.tags}": "a, b", "{.tags[0]}": "a", "{.deep}": `{"x":[1,{"y":"<z>"}]}`, "{['a-b']}": "1",
		`{.conditions[?(@.type=="Provisioned")].status}`: "False", `{.conditions[?@.type=='Provisioned'].message}`: "no } room",
		`{.conditions[?@.message=="no } room"].type}`: "Provisioned", `$.conditions[?@.status=="True"].type`: "Accepted", "{.deep.x[1].y}": "<z>",
	} {
		c := stateview.NewColumn("C", path)
		if got := c.Cell(spec); c.Err() != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", path, got, c.Err(), want)
		}
	}
	for _, path := range []string{"", "{.x", "{range .x[*]}", "{.x[?}", "{x}", "$x["} {
		c := stateview.NewColumn("C", path)
		if c.Err() == nil || c.Cell(spec) != "?" || !strings.Contains(c.Err().Error(), "column C") {
			t.Errorf("%s: %v, %q", path, c.Err(), c.Cell(spec))
		}
	}
}

// TestTheRegistrysColumnsAreRead: also those of the library's own types.
func TestTheRegistrysColumnsAreRead(t *testing.T) {
	count := 0
	for _, one := range types(t) {
		for _, c := range one.Columns {
			count++
			if c.Err() != nil {
				t.Errorf("%s: %v", one.Name, c.Err())
			}
		}
	}
	if count < 6 {
		t.Errorf("only %d columns", count)
	}
}

func TestADocumentHasEverything(t *testing.T) {
	since := time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)
	w := statetest.NewWorkload("1-1", statetest.WorkloadSpec{
		Kind: "volume", Attempts: 2, Conditions: []statetest.Condition{{Type: "Accepted", Status: "True", Reason: "Accepted", Since: since}},
	})
	w.Metadata().Labels().Set("user", "u")
	w.Metadata().Annotations().Set("note", "n")
	w.Metadata().Finalizers().Add("container/5-1")
	d, err := stateview.NewDocument(w)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"kind":"volume","phase":"","attempts":2,"message":"","conditions":[{"type":"Accepted","status":"True","reason":"Accepted","message":"","since":"2026-11-24T10:00:00Z"}]}`
	if string(d.Spec) != want {
		t.Errorf("got %s", d.Spec)
	}
	m := d.Metadata
	if m.Type != statetest.WorkloadType || m.ID != "1-1" || m.Phase != "running" || m.Labels["user"] != "u" || m.Annotations["note"] != "n" || len(m.Finalizers) != 1 {
		t.Errorf("got %+v", m)
	}
	if got := d.Conditions(); !reflect.DeepEqual(got, []stateview.Condition{{Type: "Accepted", Status: "True", Reason: "Accepted"}}) {
		t.Errorf("conditions %+v", got)
	}
	o, err := stateview.NewDocument(statetest.NewOrder("x", statetest.OrderSpec{}))
	if err != nil || o.Conditions() != nil {
		t.Errorf("an order: %+v, %v", o, err)
	}
}
