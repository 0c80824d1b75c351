"""Openings: how every party's S_m V becomes columns that all parties see, and how much of it they see."""
