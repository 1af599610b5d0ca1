package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// raw makes a namespace's reservation with any data.
func (z *zdbs) raw(data string) *workload.Reservation {
	z.Helper()
	r := z.ZDB(z.n, nil)
	r.Data = json.RawMessage(data)
	if err := r.Sign(z.User.Private()); err != nil {
		z.Fatal(err)
	}
	return r
}

// TestBadNamespaces: each causes a clear error and no other effect.
func TestBadNamespaces(t *testing.T) {
	z := newZDBs(t, "--zdb-ports", "9900", "--max-user-ssd", "20GiB", "--pool-size", "12GiB")
	other, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	before := z.n.Left()
	sealed := func(password string) string { return z.SealPassword(z.n, z.User, password) }
	boxed := func(box string) string {
		return fmt.Sprintf(`{"size":1,"mode":"user","disk_type":"SSD","password":%q}`, box)
	}
	theirs, err := workload.SealSecret(z.n.ID, z.User.ID(), workload.TypeContainer, "password", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := workload.SealSecret(other.ID(), z.User.ID(), workload.TypeZDB, "password", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	v1, err := sign.Seal(z.n.ID, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	bad := map[string]struct{ data, says string }{
		"no size":                    {`{"mode":"user","disk_type":"SSD"}`, "size"},
		"a size of 0":                {`{"size":0,"mode":"user","disk_type":"SSD"}`, "size"},
		"a size below 0":             {`{"size":-1,"mode":"user","disk_type":"SSD"}`, "size"},
		"half a GiB":                 {`{"size":0.5,"mode":"user","disk_type":"SSD"}`, "size"},
		"a size that wraps around":   {`{"size":17179869185,"mode":"user","disk_type":"SSD"}`, "size"},
		"a size in words":            {`{"size":"1","mode":"user","disk_type":"SSD"}`, "size"},
		"no mode":                    {`{"size":1,"disk_type":"SSD"}`, "mode"},
		"another mode":               {`{"size":1,"mode":"direct","disk_type":"SSD"}`, "mode"},
		"no disk type":               {`{"size":1,"mode":"user"}`, "disk_type"},
		"another disk type":          {`{"size":1,"mode":"user","disk_type":"NVME"}`, "disk_type"},
		"public in words":            {`{"size":1,"mode":"user","disk_type":"SSD","public":"yes"}`, "public"},
		"an unknown member":          {`{"size":1,"mode":"user","disk_type":"SSD","worm":true}`, "worm"},
		"a member in another case":   {`{"Size":1,"mode":"user","disk_type":"SSD"}`, "Size"},
		"nothing":                    {`null`, "data"},
		"a plain password":           {boxed("s3cr3t"), "password"},
		"a box that is none":         {boxed(strings.Repeat("00", 80)), "data.password"},
		"a box for another node":     {boxed(elsewhere), "data.password"},
		"a box for another type":     {boxed(theirs), "data.password"},
		"another user's box":         {boxed(z.SealPassword(z.n, other, "x")), "data.password"},
		"a box of version 1":         {boxed(fmt.Sprintf("%x", v1)), "data.password"},
		"an empty password":          {boxed(sealed("")), "holds 0 bytes"},
		"a long password":            {boxed(sealed(strings.Repeat("x", 64))), "from 1 to 63"},
		"a password that means none": {boxed(sealed("*")), "data.password"},
		"a zero in a password":       {boxed(sealed("a\x00b")), "data.password"},
		"a newline in a password":    {boxed(sealed("a\r\nNSNEW x")), "data.password"},
		"a disk that isn't there":    {`{"size":1,"mode":"user","disk_type":"HDD"}`, "HDD"},
		"more than there is":         {`{"size":18,"mode":"user","disk_type":"SSD"}`, "SSD"},
		"more than one may have":     {`{"size":21,"mode":"user","disk_type":"SSD"}`, "SSD"},
		"just more than fits":        {`{"size":10,"mode":"seq","disk_type":"SSD"}`, "need 12.750 GiB"},
	}
	for name, c := range bad {
		t.Run(name, func(t *testing.T) {
			mentions(t, "the error", z.refusal(z.raw(c.data)), c.says)
			z.nothing(before)
		})
	}
	if s := z.n.Status(); len(s.ZDB)+len(s.OwnContainers)+len(s.Orphans) != 0 {
		t.Errorf("on the node are %+v, %+v, %+v", s.ZDB, s.OwnContainers, s.Orphans)
	}
	t.Run("the ports are used up", func(t *testing.T) { z.noPort(before) })
}

// noPort reserves a second zdb container where there is only one port.
func (z *zdbs) noPort(before []string) {
	z.Helper()
	r, at := z.made(nil)
	z.answers(z.inside(at, ""), "a", "SET", "a", "b")
	with := z.n.Left()
	mentions(z, "the error", z.refusal(z.ZDB(z.n, func(d *workload.ZDB) { d.Mode = workload.ZDBSeq })), "port", "9900")
	z.nothing(with)
	z.answers(z.inside(at, ""), "b", "GET", "a")
	z.gone(r)
	z.nothing(before)
}

// TestANodeWithoutZDB reports it, and makes nothing.
func TestANodeWithoutZDB(t *testing.T) {
	broken := t.TempDir() + "/zdb"
	if err := os.WriteFile(broken, []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	z := newZDBs(t, "--zdb-binary", broken)
	before := z.n.Left()
	mentions(t, "the error", z.refusal(z.ZDB(z.n, nil)), "croft://zdb", "not installed on this node")
	z.nothing(before)
}
