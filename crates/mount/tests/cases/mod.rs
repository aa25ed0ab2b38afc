//! The tests, each a function that panics when it fails.

mod complete;
mod extract;
mod failures;
mod frozen;
mod life;
mod parts;
mod ranks;
mod transport;
mod writes;

/// Every test with its name.
pub(crate) const ALL: [(&str, fn()); 53] = [
    ("tree_is_equal", frozen::tree_is_equal),
    ("absences_stay_local", frozen::absences_stay_local),
    ("warm_process_asks_nothing", frozen::warm_process_asks_nothing),
    ("original_is_read_where_the_image_has_nothing", frozen::original_is_read_where_the_image_has_nothing),
    ("programs_run", frozen::programs_run),
    ("working_directory_below_the_root", frozen::working_directory_below_the_root),
    ("supplementary_group", frozen::supplementary_group),
    ("several_roots", frozen::several_roots),
    ("image_on_a_network_file_system", frozen::image_on_a_network_file_system),
    ("check_names_changes", frozen::check_names_changes),
    ("status_is_the_commands", life::status_is_the_commands),
    ("nothing_is_left_after_sigkill", life::nothing_is_left_after_sigkill),
    ("grandchildren_are_served", life::grandchildren_are_served),
    ("dead_server_does_not_hang", life::dead_server_does_not_hang),
    ("no_process_for_a_while", life::no_process_for_a_while),
    ("server_holds_nothing", life::server_holds_nothing),
    ("joined_at_once", ranks::joined_at_once),
    ("jobs_are_apart", ranks::jobs_are_apart),
    ("ranks_share_memory", ranks::ranks_share_memory),
    ("mpi_ranks_reach_each_other", ranks::mpi_ranks_reach_each_other),
    ("nested", ranks::nested),
    ("death_of_the_first_rank", ranks::death_of_the_first_rank),
    ("stranger_at_the_meeting_place", ranks::stranger_at_the_meeting_place),
    ("locks_fail_loudly", writes::locks_fail_loudly),
    ("append_that_would_overwrite", writes::append_that_would_overwrite),
    ("truncated_and_rewritten", writes::truncated_and_rewritten),
    ("removed_while_open", writes::removed_while_open),
    ("many_created_files", writes::many_created_files),
    ("file_from_elsewhere_appears", writes::file_from_elsewhere_appears),
    ("changes_are_those_of_a_plain_run", writes::changes_are_those_of_a_plain_run),
    ("compressed_tree_is_equal", transport::compressed_tree_is_equal),
    ("damaged_frame", transport::damaged_frame),
    ("memory_budget", transport::memory_budget),
    ("image_changed_while_in_use", transport::changed_while_in_use),
    ("any_way_to_read_gives_the_originals_bytes", parts::any_way_to_read_gives_the_originals_bytes),
    ("what_is_held_is_pushed", parts::what_is_held_is_pushed),
    ("changed_original_is_not_mixed_in", parts::changed_original_is_not_mixed_in),
    ("touched_original_is_the_same", parts::touched_original_is_the_same),
    ("written_through_a_mapping_while_pushed", parts::written_through_a_mapping_while_pushed),
    ("written_while_pushed", parts::written_while_pushed),
    ("complete_without_its_directories", complete::without_its_directories),
    ("complete_beside_its_directories", complete::beside_its_directories),
    ("complete_with_ranks_and_nested", complete::ranks_and_nested),
    ("complete_working_directory", complete::working_directory),
    ("extracted_tree_is_equal", extract::extracted_tree_is_equal),
    ("extracted_where_fuse_is_denied", extract::where_fuse_is_denied),
    ("extracted_beside_its_originals", extract::beside_its_originals),
    ("extracted_parts_are_made_whole", extract::parts_are_made_whole),
    ("extraction_limits", extract::limits),
    ("extracted_ranks_and_nested", extract::ranks_and_nested),
    ("extracted_complete", extract::complete),
    ("bad_images", failures::bad_images),
    ("forbidden", failures::forbidden),
];
