package registry_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"go.yaml.in/yaml/v3"

	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/registry"
	"github.com/croft-edge/croft/pkg/stateview"
	"github.com/croft-edge/croft/pkg/yamljson"
)

func TestDefinitions(t *testing.T) {
	if err := registry.Register(); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, each := range registry.Types() {
		d, err := meta.NewResourceDefinition(each.ResourceDefinition())
		if err != nil {
			t.Errorf("%s: %v", each.ResourceDefinition().Type, err)
			continue
		}
		for _, alias := range d.TypedSpec().Aliases {
			if other, taken := names[alias]; taken {
				t.Errorf("alias %s is of %s and of %s", alias, other, d.TypedSpec().Type)
			}
			names[alias] = d.TypedSpec().Type
		}
	}
}

// TestSpecs: each type's spec crosses the wire whole, and a copy shares nothing with its original.
func TestSpecs(t *testing.T) {
	if err := registry.Register(); err != nil {
		t.Fatal(err)
	}
	for _, each := range registry.Types() {
		d := each.ResourceDefinition()
		t.Run(d.Type, func(t *testing.T) {
			r := each.ResourceWithRD.(resource.Resource).DeepCopy()
			*r.Metadata() = resource.NewMetadata(d.DefaultNamespace, d.Type, "x", resource.VersionUndefined)
			fill(t, reflect.ValueOf(r.Spec()).Elem(), new(int))
			sent, err := protobuf.FromResource(r)
			if err != nil {
				t.Fatal(err)
			}
			message, err := sent.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			received, err := protobuf.Unmarshal(message)
			if err != nil {
				t.Fatal(err)
			}
			got, err := protobuf.UnmarshalResource(received)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.Spec(), r.Spec()) {
				t.Errorf("got  %+v\nwant %+v", got.Spec(), r.Spec())
			}
			c := r.DeepCopy()
			change(reflect.ValueOf(c.Spec()).Elem())
			if !reflect.DeepEqual(got.Spec(), r.Spec()) {
				t.Errorf("a change of a copy has changed its original: %+v", r.Spec())
			}
		})
	}
}

// TestJSON: a spec's JSON is that of its YAML, full and empty. Only types of which a node has a few resources may need the way by YAML.
func TestJSON(t *testing.T) {
	if err := registry.Register(); err != nil {
		t.Fatal(err)
	}
	few := []resource.Type{host.ExplorersType, host.StoresType}
	for _, each := range registry.Types() {
		d := each.ResourceDefinition()
		empty := each.ResourceWithRD.(resource.Resource).DeepCopy()
		*empty.Metadata() = resource.NewMetadata(d.DefaultNamespace, d.Type, "x", resource.VersionUndefined)
		full := empty.DeepCopy()
		fill(t, reflect.ValueOf(full.Spec()).Elem(), new(int))
		for _, r := range []resource.Resource{empty, full} {
			sent, err := protobuf.FromResource(r)
			if err != nil {
				t.Fatal(err)
			}
			message, err := sent.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			want, err := yamljson.ToJSON([]byte(message.GetSpec().GetYamlSpec()))
			if err != nil {
				t.Fatal(err)
			}
			got, ok := stateview.JSON(r.Spec())
			if !ok && !slices.Contains(few, d.Type) {
				t.Errorf("%s: its spec has a member that stateview.JSON doesn't know", d.Type)
			}
			if ok && string(got) != string(want) {
				t.Errorf("%s: got  %s\nwant %s", d.Type, got, want)
			}
		}
	}
}

// TestColumns: each column of a type's table shows a member that the type has.
func TestColumns(t *testing.T) {
	for _, each := range registry.Types() {
		d := each.ResourceDefinition()
		r := each.ResourceWithRD.(resource.Resource).DeepCopy()
		fill(t, reflect.ValueOf(r.Spec()).Elem(), new(int))
		if m, ok := r.Spec().(*host.ModuleSpec); ok {
			m.Conditions[0].Type = host.Running
		}
		raw, err := yaml.Marshal(r.Spec())
		if err != nil {
			t.Fatal(err)
		}
		var spec any
		if err := yaml.Unmarshal(raw, &spec); err != nil {
			t.Fatal(err)
		}
		for _, c := range d.PrintColumns {
			if cell := stateview.NewColumn(c.Name, c.JSONPath).Cell(spec); cell == "" || cell == "?" {
				t.Errorf("%s: column %s, %s, shows %q", d.Type, c.Name, c.JSONPath, cell)
			}
		}
	}
}

// fill sets all members to values of their own.
func fill(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(int64(*n), int64(*n)).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint16, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), n)
		fill(t, v.Index(1), n)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		fill(t, value, n)
		v.SetMapIndex(reflect.ValueOf(fmt.Sprint("key ", *n)), value)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), n)
		}
	default:
		t.Fatalf("a member has the type %s, which this test doesn't know", v.Type())
	}
}

// change changes everything in place that v refers to.
func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("changed")
	case reflect.Pointer:
		change(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			change(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.SetZero()
			return
		}
		for i := range v.NumField() {
			change(v.Field(i))
		}
	}
}
