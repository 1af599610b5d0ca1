// Package flisttest makes flists in the format .fl, from the format's description, and serves them with their blocks over
// HTTP or from a zdb. It is for tests.
package flisttest
