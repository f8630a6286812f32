! The level at x = 0 as a function of time, from the file wave.data: a count, then lines of time and level.
module wave_module
    implicit none
    logical :: is_read = .false.
    integer :: count
    real(kind=8), allocatable :: times(:), levels(:)
contains
    real(kind=8) function level_at(t)
        real(kind=8), intent(in) :: t
        integer :: k
        !$omp critical (reading_wave)
        if (.not. is_read) then
            open(unit=97, file='wave.data', status='old')
            read(97, *) count
            allocate(times(count), levels(count))
            do k = 1, count
                read(97, *) times(k), levels(k)
            end do
            close(97)
            is_read = .true.
        end if
        !$omp end critical (reading_wave)
        k = 1 + int((t - times(1)) / (times(2) - times(1)))  ! the times are equidistant
        k = min(max(k, 1), count - 1)
        level_at = levels(k) + (levels(k + 1) - levels(k)) * (t - times(k)) / (times(k + 1) - times(k))
    end function level_at
end module wave_module
